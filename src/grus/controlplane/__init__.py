"""Keeping it so: the loop that brings what is to what is wanted, and the services behind every way in."""
