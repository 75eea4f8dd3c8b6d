"""Pipeline parallelism: stages, micro-batches and their schedule."""
