"""Functions for the rules in workflow/rules.

May import: config.
"""
