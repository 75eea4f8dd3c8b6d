"""State of a training: checkpoints, synchronization of new workers, sharding."""
