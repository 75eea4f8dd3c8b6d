"""PYTHONPATH folder in which `import horovod.torch` finds Grus's runtime.

`python -m grus.elastic.adapters.horovod_names` prints it. Put the printed folder at the front of PYTHONPATH;
a script written for Horovod's elastic mode then runs without a changed line.
"""
