"""What is to be fitted: the formula, what its functions learn from the data, the design of the coefficients, and its other
parametrisations. NumPy alone; no rows.

May import: config, data, families.
"""
