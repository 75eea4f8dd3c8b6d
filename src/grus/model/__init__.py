"""Domain model: values and rules that hold anywhere. Standard library only; no clock, no I/O."""
