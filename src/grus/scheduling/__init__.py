"""What to do next: pure decisions over a snapshot. No clock, no I/O, no chance that was not passed in.

`cycle.decide(snapshot, now)` is the way in; it reads as the numbered rules of a cycle. What is in the
snapshot: `topology` (the pool), `quota` (the tree of queues), `ordering` (who is next), `gang` (requests).
"""
