"""Looking back: what the pool's GPUs were used for, what was wasted and why, and what came of it."""
