"""Splitting one model over several GPUs: which operator runs where, in which order, how long a step takes.

`graph` and `topology` say what is to be placed and on what; `placers` find placements, `schedule` simulates
them, `portfolio` takes the best and `check` verifies an answer without trusting any of the others.
`capture` finds the operators of a training. It needs torch, and so does what runs a split one; the rest does
without.
"""
