"""Boundary of the system: parses and validates what users and programs write, and renders what they read. No
I/O.
"""
