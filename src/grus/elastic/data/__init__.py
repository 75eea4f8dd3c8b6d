"""Training data: which samples each worker reads, in what batches."""
