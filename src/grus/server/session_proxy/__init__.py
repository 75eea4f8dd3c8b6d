"""Reverse proxy to development sessions, on an origin of its own."""
