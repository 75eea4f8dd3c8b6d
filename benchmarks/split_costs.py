"""What splitting costs, for the study in docs/notebooks: `python -m benchmarks.split_costs FILE`.

Two kinds of cases. `large`: a batch that needs an RTX 3090 and does not fit an RTX 3060. `fragments`: a batch
that fits a whole RTX 3060 and not half of one. For each the ways to run it otherwise, from estimates and from
plans of the partitioner, are written to the file: memory of each GPU, seconds of a step. Nothing is measured
on a GPU; half a GPU counts as half as fast. The last line is one JSON object about all of them.
"""

import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.placement_models import TRAININGS
from grus.estimation.gpus import find
from grus.partition.options import Option, options
from grus.partition.parse_devices import Gpu

SMALL, LARGE = find("RTX3060"), find("RTX3090")
BATCHES = {"Inception-v3": (128, 64), "Transformer": (192, 96), "GPT-2": (24, 12), "ResNet-50": (192, 96)}
"""For each model the batch of its large case and of its case of fragments."""
HALF = 0.5
FILE = Path("docs/notebooks/split-costs.json")


def cases() -> Iterator[dict[str, object]]:
    for model, (large, small) in BATCHES.items():
        for kind, batch, fits, other in (
            ("large", large, Gpu(LARGE, LARGE.memory), Gpu(SMALL, SMALL.memory)),
            ("fragments", small, Gpu(SMALL, SMALL.memory), Gpu(SMALL, int(HALF * SMALL.memory), HALF)),
        ):
            training = replace(TRAININGS[model](), size=batch)
            found = [*options(training, fits, 1), *options(training, other, 4)]
            shown = ", ".join(f"{one.how} {one.gpus} x {one.seconds * 1000:.0f} ms" for one in found)
            print(f"{model}, batch {batch}, {kind}: {shown}", flush=True)
            if found[0].how != "whole":
                raise SystemExit(f"{model} with a batch of {batch} does not fit a whole {fits.kind.name}")
            yield {"kind": kind, "model": model, "batch": batch, "ways": [written(one) for one in found]}


def written(one: Option) -> dict[str, object]:
    return {**asdict(one), "seconds": round(one.seconds, 6)}


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    begin = time.monotonic()
    made = list(cases())
    table = {"command": "python -m benchmarks.split_costs", "cases": made}
    path.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    speeds = [speed for case in made for speed in split_speeds(case)]
    print(
        json.dumps(
            {
                "cases": len(made),
                "split": len(speeds),
                "split_speed_median": round(statistics.median(speeds), 3),
                "seconds": round(time.monotonic() - begin, 1),
            }
        )
    )


def split_speeds(case: dict[str, object]) -> list[float]:
    """How fast a split is, relative to the whole GPU."""
    ways = case["ways"]
    assert isinstance(ways, list)
    return [ways[0]["seconds"] / one["seconds"] for one in ways if one["how"] == "split"]


if __name__ == "__main__":
    main()
