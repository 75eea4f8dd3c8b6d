"""GPU memory estimation: the memory that a training will need, before it runs and without a GPU.

A training is run for two steps on tensors without data (`tracing`), which gives the lifetime of every piece
of memory (`allocation_trace`). These lifetimes are replayed through the allocator of a GPU (`allocator`) and
divided by purpose (`memory_breakdown`). Margins for what only a GPU shows are added (`calibration`).
"""
