"""Verification of placements and pipelines, independent of what made them."""
