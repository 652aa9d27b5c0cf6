"""Solvers. They are given a pool that can sum a pass over shards, and know nothing of the cluster behind it."""
