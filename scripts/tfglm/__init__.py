"""tfglm: generalised linear models on airline-size CSV files. The scripts beside this folder are its command line."""

ENGINE = "11"
"""Raised whenever the same input can give other numbers; a parameter of the rules, so that old results are made anew."""
