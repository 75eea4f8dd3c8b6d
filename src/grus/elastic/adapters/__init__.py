"""Other frameworks' ways of writing elastic training, on top of this runtime."""
