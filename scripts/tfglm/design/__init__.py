"""From a formula to the coefficients to fit: parsing, functions that learn from the data, the design and its
parametrisations. It needs NumPy alone and reads no rows.

May import: config, data, families.
"""
