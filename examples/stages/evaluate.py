"""How good the trained network is on pictures that it has never seen; too bad a one goes no further."""

import json

import torch
from nets import pictures, trained

import grus

GOOD_ENOUGH = 0.9

inputs, labels = pictures("unseen").tensors
with torch.no_grad():
    accuracy = float((trained()(inputs).argmax(1) == labels).float().mean())
grus.report(accuracy=accuracy)
(grus.output("figures") / "figures.json").write_text(json.dumps({"accuracy": accuracy}))
print(f"accuracy {accuracy:.3f}")
if accuracy < GOOD_ENOUGH:
    raise SystemExit(f"not good enough: {GOOD_ENOUGH} is wanted")
