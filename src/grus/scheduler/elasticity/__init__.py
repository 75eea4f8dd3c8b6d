"""Sizes of elastic jobs: speedup curves, spare GPUs, rebalancing."""
