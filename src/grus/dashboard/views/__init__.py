"""What pages show, as plain values worked out of the model's: no clock, no I/O, nothing of the web."""
