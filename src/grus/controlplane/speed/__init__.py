"""Measured speed of jobs, alone and on shared GPUs."""
