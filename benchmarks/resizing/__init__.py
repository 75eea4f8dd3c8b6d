"""What `python -m benchmarks.resize` is made of: a training on each runtime, and what its logs say."""
