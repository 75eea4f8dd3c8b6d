"""Grus makes one pool out of a team's GPUs."""
