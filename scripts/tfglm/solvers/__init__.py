"""From sums to one fit: where the maximum is, how sure that is, and the covariance of the estimates.

May import: config, data, families, design, engine, distribute. It is given an Executor, and knows no cluster.
"""
