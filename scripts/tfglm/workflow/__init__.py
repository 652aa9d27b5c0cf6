"""Functions for the rules in workflow/rules: what a run reads, makes and checks.

May import: config, data, design and roles. What needs more than Snakemake brings is imported in functions.
"""
