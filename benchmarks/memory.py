"""How well the memory of a training is known before it runs.

    GRUS_DATA=… python -m benchmarks.memory [--quick]

GPU: the runs of CNNs on an RTX 3060 that were published with xMem, estimated from the model alone; the errors
of xMem, DNNMem and SchedTune are recomputed from the same rows. What is learned for a row is learned from
other models only. `gpu_failures` counts rows whose upper bound lies below the truth, or above what the card
has although the truth fits.

CPU: peaks against what PyTorch really allocates there. `cpu_max_error` leaves out what a convolution takes
and gives back before it ends, since on a GPU other kernels run; `cpu_max_error_with_scratch` has it in.

`seconds_median` and `seconds_max` are the time of an estimate, imports not among it.
"""

import argparse
import csv
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Adam, AdamW, Optimizer

from benchmarks.machine import facts
from benchmarks.memory_margins import Observation, learn
from benchmarks.memory_models import CLASSES, CNNS, Decoder
from benchmarks.memory_truth import real_peak
from grus.estimation.allocator import MIB, replay
from grus.estimation.fake_tensor_trace import trace
from grus.estimation.training_definition import Training

CARD = 12_622_168_064
"""Bytes that CUDA reports for an RTX 3060 of 12 GiB."""
CONTEXT = 400 * MIB
"""About what the context takes of them before the first tensor."""
PIXELS = 86
RIVALS = ("xmem", "dnnmem", "schedtune")
CPU_BATCH = 8

OPTIMIZERS: dict[str, Callable[[Iterable[nn.Parameter]], Optimizer]] = {
    "SGD": lambda parameters: SGD(parameters, lr=0.01),
    "Adam": lambda parameters: Adam(parameters, lr=0.001),
    "AdamW": lambda parameters: AdamW(parameters, lr=0.001),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A published run and what the estimators said."""

    model: str
    optimizer: str
    batch: int
    gpu: str
    peak: int
    rivals: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Answer:
    """What Grus says about a row, having seen other models only."""

    row: Row
    estimate: int
    upper: int

    @property
    def error(self) -> float:
        return abs(self.estimate - self.row.peak) / self.row.peak

    @property
    def failed(self) -> bool:
        return self.upper < self.row.peak or self.upper > CARD >= self.row.peak


def table() -> Path | None:
    folder = os.environ.get("GRUS_DATA")
    found = Path(folder) / "xmem" / "xmem_sample.csv" if folder else None
    return found if found is not None and found.is_file() else None


def read(path: Path) -> list[Row]:
    """The rows of the CNNs."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Row(
                line["model"],
                line["opt"],
                int(line["batch"]),
                line["gpu"],
                int(line["ground_bytes"]),
                {name: int(line[f"{name}_bytes"]) for name in RIVALS},
            )
            for line in csv.DictReader(file)
            if line["model"] in CNNS
        ]


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return functional.cross_entropy(model(batch[0]).flatten(0, -2), batch[1])


def pictures(count: int) -> tuple[Tensor, Tensor]:
    return torch.randn(count, 3, PIXELS, PIXELS), torch.randint(0, CLASSES, (count,))


def sentences(count: int) -> tuple[Tensor, Tensor]:
    return torch.randint(0, 50257, (count, 128)), torch.randint(0, 50257, (count * 128,))


def observe(row: Row) -> tuple[Observation, float]:
    """The replay beside the published peak, and the seconds it took."""
    begin = time.perf_counter()
    training = Training(CNNS[row.model], OPTIMIZERS[row.optimizer], pictures, loss, row.batch)
    usage = replay(trace(training).events, CARD - CONTEXT)
    seconds = time.perf_counter() - begin
    return Observation(row.model, row.gpu, usage.reserved, row.peak), seconds


def answers(rows: Sequence[Row], observations: Sequence[Observation]) -> list[Answer]:
    found = []
    for row, own in zip(rows, observations, strict=True):
        margin = learn(observations, row.gpu, without=row.model)
        assert margin is not None, "the rows have models enough"
        found.append(Answer(row, own.replayed + margin.typical, own.replayed + margin.upper))
    return found


def gpu_figures(rows: Sequence[Row]) -> dict[str, object]:
    """All rows, with a line about each."""
    seen, seconds = [], []
    for row in rows:
        observation, took = observe(row)
        seen.append(observation)
        seconds.append(took)
        sizes = f"replay {observation.replayed / MIB:,.0f} MiB, truth {row.peak / MIB:,.0f} MiB"
        say(f"  {row.model}, {row.optimizer}, batch {row.batch}: {sizes}, in {took:.1f} s")
    found = answers(rows, seen)
    for one in found:
        verdict = f"at most {one.upper / MIB:,.0f} MiB{', failed' if one.failed else ''}"
        say(f"  {one.row.model}, {one.row.optimizer}: error {one.error:.1%}, {verdict}")
    theirs = {
        f"{name}_median_error": round(
            statistics.median(abs(row.rivals[name] - row.peak) / row.peak for row in rows), 4
        )
        for name in RIVALS
    }
    return {
        "rows": len(rows),
        "gpu_median_error": round(statistics.median(one.error for one in found), 4),
        "gpu_max_error": round(max(one.error for one in found), 4),
        "gpu_failures": sum(one.failed for one in found),
        **theirs,
        "seconds_median": round(statistics.median(seconds), 2),
        "seconds_max": round(max(seconds), 2),
    }


def cpu_trainings(quick: bool) -> dict[str, Training]:
    """Ten CNNs and a language model, each with two optimizers."""
    names = ["MnasNet"] if quick else [*CNNS]
    found = {
        f"{name}, {optimizer}": Training(CNNS[name], OPTIMIZERS[optimizer], pictures, loss, CPU_BATCH)
        for name in names
        for optimizer in ("SGD", "Adam")
    }
    if not quick:
        for optimizer in ("SGD", "Adam"):
            found[f"Decoder, {optimizer}"] = Training(
                Decoder, OPTIMIZERS[optimizer], sentences, loss, CPU_BATCH
            )
    return found


def cpu_figures(quick: bool) -> dict[str, object]:
    """The traced peaks against real ones, with a line about each."""
    errors, with_scratch = [], []
    for name, training in cpu_trainings(quick).items():
        traced, real = trace(training).peak, real_peak(training)
        errors.append(abs(traced / real.without_scratch - 1))
        with_scratch.append(abs(traced / real.all - 1))
        say(
            f"  {name} on the CPU: traced {traced:,}, real {real.without_scratch:,} bytes, "
            f"with scratch {real.all:,}"
        )
    return {
        "cpu_trainings": len(errors),
        "cpu_exact": sum(error == 0 for error in errors),
        "cpu_max_error": round(max(errors), 5),
        "cpu_within_1_percent_with_scratch": sum(error <= 0.01 for error in with_scratch),
        "cpu_max_error_with_scratch": round(max(with_scratch), 5),
    }


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one model only on the CPU")
    given = parser.parse_args()
    path = table()
    if path is None:
        print(json.dumps({"skipped": "GRUS_DATA names no folder with xmem/xmem_sample.csv"}))
        return
    print(json.dumps(gpu_figures(read(path)) | cpu_figures(given.quick) | facts()))


if __name__ == "__main__":
    main()
