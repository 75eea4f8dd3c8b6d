"""Parsers of what people and programs send: job files, sweeps, workflows and request bodies."""
