"""Model splitting over several GPUs: the device of each operator, the order, and the time of a step.

`graph` and `topology` define what is to be placed and on what; `placers` find placements, `step_simulator`
simulates them, `portfolio` takes the best and `placement_check` verifies an answer without trusting any of
the others. `capture` finds the operators of a training. It needs torch, and so does the code that runs a
split one; the rest does not.
"""
