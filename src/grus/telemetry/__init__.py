"""Telemetry: the GPUs of this machine, real (`nvml`) or virtual (`virtual_gpus`), and their use.

A source of devices reports facts; it never decides on allocations. `source` defines the interface that an
engine uses.
"""
