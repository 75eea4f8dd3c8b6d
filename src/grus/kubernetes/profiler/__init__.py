"""The profiler of one node: what its GPUs and pods do, recognised from telemetry and written on them as tags.

A DaemonSet of its own beside the node agent: it can change nothing but annotations, and works without the
rest of Grus. `python -m grus.kubernetes.profiler`.
"""
