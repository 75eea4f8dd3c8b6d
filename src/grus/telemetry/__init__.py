"""What is measured: the GPUs of this machine, real (`nvml`) or pretended (`virtual`), and who uses them.

A source of devices tells facts; it never decides who gets one. `source` says what an engine may ask of it.
"""
