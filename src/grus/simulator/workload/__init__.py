"""Jobs to simulate: recorded traces, published workloads, history of this pool, synthetic jobs."""
