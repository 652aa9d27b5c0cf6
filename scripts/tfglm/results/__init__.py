"""From a fitted model to what a reader gets: tables, metrics, pictures."""
