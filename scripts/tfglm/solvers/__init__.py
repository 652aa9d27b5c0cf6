"""From sums to one fit (fit.py): prepare, start, solve (newton, elastic_net, path, online), certify, describe.

May import: formula, config, data, families, design, engine, distribute, inference. It is given an Executor, and knows no cluster.
"""
