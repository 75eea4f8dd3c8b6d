"""Threads that serve the control plane: background threads, work queue, listeners. Standard library only."""
