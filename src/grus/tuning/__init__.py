"""Searching for good parameters: what to try next, what to end early, what deserves more. Pure."""
