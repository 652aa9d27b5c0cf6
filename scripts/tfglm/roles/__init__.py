"""The processes of a cluster: how they start, announce themselves, watch each other and end.

May import: config; TensorFlow where a server runs.
"""
