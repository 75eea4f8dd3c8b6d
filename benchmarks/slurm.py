"""Grus and Slurm on the same machine, side by side. `python -m benchmarks.slurm [--quick] [--blocks N]`

Never both at once, in the order A B B A, each leg from an empty state; the gaps before submits whose latency
is measured are random, so that nobody's ticks are met in step. Ratios are taken block by block, ours / tuned
Slurm's; their median counts and their range is printed. Slurm with its default ticks is printed beside.
Blocks in which others used the machine are done again; `noisy_blocks` says how many such had to count.

What is not the same: Slurm can serve many hosts (munge, slurmd, a slurmstepd per job), and acknowledges a
submit before it is on disk; Grus answers after the disk has it, and serves one machine.
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from benchmarks.machine import busy_share, facts, fdatasync_rate, spread, wait_until_quiet
from benchmarks.slurm_cluster import provide
from benchmarks.slurm_sides import GrusSide, Side, SlurmSide, crash_grus, crash_slurm

Figures = dict[str, list[float]]
QUIET = 0.10
"""Share of the CPU that others may use; above it a block does not count."""
OURS, TUNED, DEFAULT = "grus", "slurm", "slurm_default"


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured in each leg."""

    blocks: int
    latencies: int
    reclaims: int
    jobs: int
    submits: int
    crashes: int


FULL = Size(blocks=5, latencies=8, reclaims=4, jobs=240, submits=800, crashes=3)
QUICK = Size(blocks=1, latencies=2, reclaims=1, jobs=48, submits=160, crashes=1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small block, to see that it works")
    parser.add_argument("--blocks", type=int, help="how many blocks (5)")
    given = parser.parse_args()
    size = QUICK if given.quick else FULL
    if missing := provide():
        print(json.dumps({"skipped": missing}))
        return 0
    blocks = quiet_blocks(given.blocks or size.blocks, size)
    ours, theirs = crashes(size)
    print(json.dumps(summary(blocks, ours, theirs)))
    return 0


# ----------------------------------------------------------------------------------------------- blocks


def quiet_blocks(wanted: int, size: Size) -> list[dict[str, Figures]]:
    """That many blocks; one in which others used the machine is done again, but not endlessly."""
    blocks: list[dict[str, Figures]] = []
    for number in range(2 * wanted):
        blocks.append(one_block(number, size))
        if sum(map(quiet, blocks)) == wanted:
            break
    return sorted(blocks, key=quiet, reverse=True)[:wanted]


def quiet(block: dict[str, Figures]) -> bool:
    """Whether others left the machine to us before and after each leg."""
    return all(max(figures["foreign_cpu"]) <= QUIET for figures in block.values())


def one_block(number: int, size: Size) -> dict[str, Figures]:
    """One leg of each system; every second block in reverse, which makes A B B A."""
    legs: list[tuple[str, Callable[[], AbstractContextManager[Side]]]] = [
        (OURS, GrusSide),
        (TUNED, lambda: SlurmSide(tuned=True)),
        (DEFAULT, lambda: SlurmSide(tuned=False)),
    ]
    found = {}
    for name, start in legs if number % 2 == 0 else reversed(legs):
        foreign = wait_until_quiet(QUIET)
        tell(f"block {number + 1}, {name}: others use {foreign:.0%} CPU, {fdatasync_rate():.0f} fdatasync/s")
        with start() as side:
            # Default ticks need about a minute for 200 jobs; a third of them shows the same rate.
            jobs = size.jobs // 3 if name == DEFAULT else size.jobs
            found[name] = one_leg(side, replace(size, jobs=jobs))
        found[name]["foreign_cpu"] = [max(foreign, busy_share())]
        tell(
            "  " + ", ".join(f"{key} {statistics.median(values):.4g}" for key, values in found[name].items())
        )
    return found


def one_leg(side: Side, size: Size) -> Figures:
    figures: Figures = defaultdict(list)
    for _ in range(size.latencies):
        time.sleep(random.uniform(0, 3))
        figures["latency_s"].append(side.submit_to_start())
    for _ in range(size.reclaims):
        figures["reclaim_s"].append(side.reclaim(random.uniform(0, 3)))
    figures["jobs_per_s"].append(side.job_rate(size.jobs))
    figures["submits_per_s"].append(side.submit_rate(size.submits))
    for key, value in side.beside(size.submits).items():
        figures[key].append(value)
    return figures


def crashes(size: Size) -> tuple[list[int], list[int]]:
    """Sums over the rounds, for Grus and for Slurm: acknowledged, lost, run twice."""
    totals = {OURS: [0, 0, 0], TUNED: [0, 0, 0]}
    for number in range(size.crashes):
        seconds = 5 + random.uniform(0, 3)
        for name, crash in ((OURS, crash_grus), (TUNED, crash_slurm)):
            result = crash(seconds)
            told = f"{result[0]} acknowledged, {result[1]} lost, {result[2]} twice"
            tell(f"kill -9 of {name}, round {number + 1}: {told}")
            totals[name] = [total + more for total, more in zip(totals[name], result, strict=True)]
    return totals[OURS], totals[TUNED]


# ---------------------------------------------------------------------------------------------- summary


def summary(blocks: Sequence[dict[str, Figures]], ours: list[int], theirs: list[int]) -> dict[str, object]:
    ratios = {
        "submit_ratio": [ratio(block, "submits_per_s") for block in blocks],
        "jobs_ratio": [ratio(block, "jobs_per_s") for block in blocks],
        "latency_ratio": [ratio(block, "latency_s") for block in blocks],
        "reclaim_ratio": [ratio(block, "reclaim_s") for block in blocks],
    }
    return {
        **{name: round(statistics.median(values), 4) for name, values in ratios.items()},
        "lost": ours[1],
        "twice": ours[2],
        "slurm_lost": theirs[1],
        "slurm_twice": theirs[2],
        "acknowledged": ours[0],
        "slurm_acknowledged": theirs[0],
        **{f"{name}_range": f"{min(values):.3g} to {max(values):.3g}" for name, values in ratios.items()},
        **medians(blocks),
        "blocks": len(blocks),
        "noisy_blocks": sum(not quiet(block) for block in blocks),
        "slots": 8,
        "spread": {name: spreads(blocks, name) for name in (OURS, TUNED, DEFAULT)},
        **facts(),
    }


def ratio(block: dict[str, Figures], figure: str) -> float:
    """Ours / tuned Slurm's, medians of one block."""
    return statistics.median(block[OURS][figure]) / statistics.median(block[TUNED][figure])


def collected(blocks: Sequence[dict[str, Figures]], name: str) -> Figures:
    found: Figures = defaultdict(list)
    for block in blocks:
        for key, values in block[name].items():
            found[key] += values
    return found


def medians(blocks: Sequence[dict[str, Figures]]) -> dict[str, float]:
    """Every figure of every side, under the names `grus_…`, `slurm_…` and `slurm_default_…`."""
    return {
        f"{name}_{key}": float(f"{statistics.median(values):.4g}")
        for name in (OURS, TUNED, DEFAULT)
        for key, values in collected(blocks, name).items()
    }


def spreads(blocks: Sequence[dict[str, Figures]], name: str) -> dict[str, dict[str, float]]:
    return {key: spread(values) for key, values in collected(blocks, name).items()}


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
