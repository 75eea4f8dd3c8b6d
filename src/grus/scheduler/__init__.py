"""Scheduler: pure decisions over a snapshot. No clock, no I/O, no randomness that was not passed in.

`cycle.decide(snapshot, now)` is the entry point; it reads as the numbered rules of a cycle. Parts of the
snapshot: `pool_topology` (the pool), `queue_tree` (the tree of queues), `ordering` (the next job in line),
`gang_placement` (requests).
"""
