"""Self-test of elastic training on this machine: `python -m grus.elastic.selftest --backend nccl` (or gloo).

It starts the workers of one small run, makes them grow and shrink, and kills, stops and pauses them, with a
substitute for the control plane. After each event the loss must equal that of an undisturbed run. No server
is needed.

    program     the training that each worker runs
    conductor   starts workers and gives them orders, as the control plane would
    events      the disturbances, and the conditions that must hold afterwards
"""
