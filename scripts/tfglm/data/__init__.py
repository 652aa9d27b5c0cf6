"""CSV files to shards: reading, selection, shuffling, blocks with checksums, and the dictionary of all files' levels.

May import: config.
"""
