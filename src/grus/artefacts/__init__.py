"""Former name of `grus.artifacts`: commands of workers that an earlier version recorded name its modules."""
