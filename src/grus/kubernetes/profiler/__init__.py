"""Node profiler: recognizes the activity of GPUs and pods from telemetry and writes it on them as tags.

It is a DaemonSet of its own beside the node agent: it can change only annotations, and works without the rest
of Grus. `python -m grus.kubernetes.profiler`.
"""
