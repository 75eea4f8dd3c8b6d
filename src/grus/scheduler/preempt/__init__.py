"""Preemption and reclaim: who may take GPUs, from whom, and when it costs least."""
