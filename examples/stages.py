"""Prepare data, fit a line to it, say how well it fits: each as a job of its own."""

import json
import random
import sys
from pathlib import Path

OUT = Path("out")
DATA, MODEL = OUT / "data.json", OUT / "model.json"


def prepare() -> None:
    rng = random.Random(7)
    points = [(x / 100, 3 * x / 100 + 1 + rng.gauss(0, 0.1)) for x in range(1000)]
    DATA.write_text(json.dumps(points))
    print(f"{len(points)} points")


def train() -> None:
    points = json.loads(DATA.read_text())
    slope = offset = 0.0
    for _ in range(400):
        errors = [(x, slope * x + offset - y) for x, y in points]
        slope -= 0.02 * sum(x * error for x, error in errors) / len(points)
        offset -= 0.02 * sum(error for _, error in errors) / len(points)
    MODEL.write_text(json.dumps([slope, offset]))
    print(f"y = {slope:.2f} x + {offset:.2f}")


def evaluate() -> None:
    slope, offset = json.loads(MODEL.read_text())
    points = json.loads(DATA.read_text())
    error = sum((slope * x + offset - y) ** 2 for x, y in points) / len(points)
    print(f"mean squared error {error:.4f}")
    assert error < 1


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    {"prepare": prepare, "train": train, "evaluate": evaluate}[sys.argv[1]]()
