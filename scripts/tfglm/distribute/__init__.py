"""Run tasks on rows: in this process (`local`), on workers with parameter servers (`parameter_server`), or in this process
and its peers (`multi_worker_mirrored`).

This package knows no statistics: each task is registered where it is defined (`tasks`). May import: roles; TensorFlow.
"""
