"""Artifact stores of the users of this machine and their garbage collection."""
