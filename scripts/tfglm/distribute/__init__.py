"""Who runs a task on which rows: in this process (`local`), or on parameter servers and workers (`parameter_server`).

It knows no statistics: what can be run is registered by whoever defines it (`tasks`). May import: roles; in `parameter_server`
and `remote` TensorFlow.
"""
