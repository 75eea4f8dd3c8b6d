"""Amounts, jobs and their problems as text for users, and amounts back from it."""
