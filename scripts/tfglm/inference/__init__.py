"""From estimates to errors and tests: one covariance for each fit, which has its variances, tests and storage.

`fitted` has the estimates, `bread` the inverse information matrix, and each other file a kind of covariance or a part of it.
"""
