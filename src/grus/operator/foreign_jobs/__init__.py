"""Converters: each job of another system becomes a GpuJob, whose state is reported on the original object."""
