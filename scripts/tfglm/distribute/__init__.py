"""Who runs a task on which rows: this process (`local`), workers on parameter servers (`parameter_server`), or this process and
its peers (`multi_worker_mirrored`).

It knows no statistics: what can be run is registered by whoever defines it (`tasks`). May import: roles; TensorFlow.
"""
