"""From estimates to errors and tests (fitted.py): each kind of covariance has its variances, tests and storage in one place.

May import: design. It sees no rows.
"""
