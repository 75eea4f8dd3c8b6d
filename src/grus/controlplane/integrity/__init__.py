"""Consistency checks of the state: record, event log, files."""
