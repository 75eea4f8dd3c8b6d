"""Backups of the state: create, restore, rotate."""
