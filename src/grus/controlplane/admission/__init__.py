"""Admission of submitted jobs and workflows into the store."""
