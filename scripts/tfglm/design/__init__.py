"""From the terms of a formula to the coefficients to fit: functions that learn from the data, the design and its
parametrisations. It needs NumPy alone and reads no rows.

May import: formula, config, data, families.
"""
