"""Parsing of YAML and JSON documents, with the line and the rule of each error."""
