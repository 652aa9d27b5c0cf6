"""A first look at a file that nobody has described: a layout for it, a regression that its columns allow, and the config to start
from. What is written has been read back by the classes of the config, and the file by the reader of ingest.
"""
