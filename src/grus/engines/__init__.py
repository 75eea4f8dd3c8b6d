"""Where workers run: one package for each implementation of `grus.model.ports.Engine`."""
