"""Pictures, and pages from templates.

May import: config, data, design, results.
"""
