"""The control loop and its state: observe, decide, record, apply."""
