"""Jobs of other systems, taken as they are: each becomes a GpuJob, and what becomes of that is told on it."""
