"""A first look at a file that nobody has described: its layout, a regression that its columns allow, and a config to start
from.

The classes of the config read the written config back, and the reader of ingest reads the file.
"""
