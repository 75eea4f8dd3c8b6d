"""Simulations started from the Simulate page, each in a process of its own."""
