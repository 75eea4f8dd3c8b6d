"""Hyperparameter sweeps: their trials, as jobs."""
