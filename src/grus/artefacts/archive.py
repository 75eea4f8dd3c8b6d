"""Former name of `grus.artifacts.archive`."""

from grus.artifacts.archive import main

__all__ = ["main"]
