"""What `grus.train` adds to an undisturbed step: plain DDP and Grus in turns, two workers each."""

import statistics
from collections.abc import Callable
from pathlib import Path

from benchmarks.resizing import sides
from benchmarks.resizing.on_grus import GrusJob
from benchmarks.resizing.turns import KIND, PLACE, Turns

WORKERS = 2
STEPS = 10
"""Of one turn: under a second, so that the machine is the same for both."""
OURS, PLAIN = "grus", "ddp"


def measure(folder: Path, rounds: int, tell: Callable[[str], None]) -> dict[str, float]:
    """`step_overhead`: by which fraction a step is longer than on plain DDP, median over the rounds."""
    with Turns(folder / "turns") as turns:
        env = {PLACE: str(turns.place)}
        plain = sides.agent(
            ["--standalone", f"--nproc-per-node={WORKERS}"],
            "benchmarks.resizing.timed_ddp",
            sides.environment(folder, **env, **{KIND: PLAIN}),
            folder / "ddp.out",
        )
        try:
            with GrusJob(folder, "benchmarks.resizing.timed_grus", str(WORKERS), {**env, KIND: OURS}):
                turns.gather((OURS, PLAIN), WORKERS)
                return _summary(_rounds(turns, rounds, tell))
        finally:
            sides.end([plain], folder)


def _rounds(turns: Turns, rounds: int, tell: Callable[[str], None]) -> list[tuple[float, float]]:
    """Seconds of Grus and of plain DDP in each round of A B B A, after one that warms up."""
    found = []
    for number in range(rounds + 1):
        ours = turns.give(OURS, STEPS)
        plain = turns.give(PLAIN, STEPS) + turns.give(PLAIN, STEPS)
        ours += turns.give(OURS, STEPS)
        found.append((ours, plain))
        if number % 10 == 0:
            tell(f"undisturbed steps, round {number}: {ours:.3f} s on Grus, {plain:.3f} s on plain DDP")
    return found[1:]


def _summary(rounds: list[tuple[float, float]]) -> dict[str, float]:
    ratios = sorted(ours / plain - 1 for ours, plain in rounds)
    return {
        "step_overhead": round(statistics.median(ratios), 4),
        "step_overhead_low": round(ratios[len(ratios) // 4], 4),
        "step_overhead_high": round(ratios[(3 * len(ratios)) // 4], 4),
        "step_s": round(statistics.median(ours for ours, _ in rounds) / (2 * STEPS), 5),
        "ddp_step_s": round(statistics.median(plain for _, plain in rounds) / (2 * STEPS), 5),
    }
