"""The statistical model: formula, design, families, and the passes that sum over shards."""
