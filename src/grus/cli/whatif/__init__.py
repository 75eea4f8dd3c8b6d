"""Questions about other pools and sizes: inputs of simulations, split or wait, automatic GPU sizes."""
