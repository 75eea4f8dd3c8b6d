"""Commands that start, stop, check, back up and install a server on this machine."""
