"""Trainings that `benchmarks.profiling` runs as jobs; each is a script of its own."""
