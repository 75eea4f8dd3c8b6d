"""Horovod's name, for scripts that are not to be changed."""
