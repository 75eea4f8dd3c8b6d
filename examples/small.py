"""A small model: holds some memory and computes for a moment."""

import argparse
import math
import os

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--megabytes", type=int, default=16)
options.add_argument("--steps", type=int, default=5)
chosen = options.parse_args()

weights = bytearray(chosen.megabytes * 1_000_000)
print(f"I have {os.environ.get('GRUS_GPUS', '?')} GPU and {chosen.megabytes} MB", flush=True)
for step in range(chosen.steps):
    loss = sum(math.sin(x) ** 2 for x in range(200_000)) / 200_000 / (step + 1)
    print(f"step {step}: loss {loss:.3f}", flush=True)
assert not any(weights[:100])
