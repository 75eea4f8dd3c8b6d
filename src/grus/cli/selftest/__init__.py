"""`grus selftest`: everything about Grus that only a machine with GPUs can show, run by one command."""
