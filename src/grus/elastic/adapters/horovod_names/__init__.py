"""Where `import horovod.torch` finds Grus's runtime: `python -m grus.elastic.adapters.horovod_names` says it.

The folder it prints goes to the front of PYTHONPATH; a script written for Horovod's elastic mode then runs
without a changed line.
"""
