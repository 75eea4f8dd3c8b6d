"""Former name of `grus.artifacts.stage`."""

from grus.artifacts.stage import main

__all__ = ["main"]
