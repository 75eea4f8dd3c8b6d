"""How much GPU memory a training will need, known before it runs and without a GPU.

A training is run twice over on tensors without data (`tracing`), which gives the life of every piece of
memory (`lives`). These lives are replayed through the allocator of a GPU (`allocator`), taken apart
(`parts`), and what only a GPU can tell is learned from finished runs (`margins`).
"""
