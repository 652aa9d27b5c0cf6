"""Who runs a task on which rows: in this process, or on parameter servers and workers. It knows no statistics.

May import: roles; TensorFlow.
"""
