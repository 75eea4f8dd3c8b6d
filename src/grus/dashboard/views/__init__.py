"""Content of pages as plain values, computed from the model's: no clock, no I/O, nothing of the web."""
