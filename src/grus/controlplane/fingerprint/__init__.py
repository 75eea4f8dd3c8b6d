"""Fingerprints of jobs and the profiles kept under them."""
