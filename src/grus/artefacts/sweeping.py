"""Former name of `grus.artifacts.gc`."""

from grus.artifacts.gc import main

__all__ = ["main"]
