"""Shards and functions on many machines; no statistics."""
