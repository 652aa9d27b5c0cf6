"""What an analyst is given: coefficients, tests, effects, predictions, metrics and comparisons, from what a fit has kept.

May import: formula, config, data, families, design, engine, inference, solvers, checkpoint, provenance.
"""
