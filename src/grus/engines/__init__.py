"""Engines, which run the workers: one package for each implementation of `grus.model.interfaces.Engine`."""
