"""Recordings of a live scheduler, and their replay."""
