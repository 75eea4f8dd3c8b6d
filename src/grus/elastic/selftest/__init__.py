"""Is elastic training sound on this machine? `python -m grus.elastic.selftest --backend nccl` (or gloo).

Workers of one small run are started, told to grow and shrink, killed, stopped and paused, by a stand-in for
the control plane. After each event the loss must be that of a run that nothing happened to. No server is
needed.

    program     what each worker trains
    conductor   starts workers and gives them orders, as the control plane would
    events      what is done to them, and what must be true afterwards
"""
