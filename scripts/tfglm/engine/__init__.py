"""How rows become sums: the rows of a shard in a design's terms, passes over them, and the steps of online solvers (numba).

May import: formula, config, data, families, design, distribute.
"""
