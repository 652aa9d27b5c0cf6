"""A formula is read once, into typed terms; no other room reads the text of a formula or the name of a term.

It needs the standard library alone, because the config asks it at every start. May import: nothing.
"""
