"""A real search on a real server, against random search and Optuna's own study, until a target is reported.

    python -m benchmarks.sweep_live [--seeds N] [--pace SECONDS] [--limit SECONDS]

Three search with four (virtual) GPUs each: Grus as `type: sweep` is without further words (TPE, rule auto),
each trial a job of its own that is paused, resumed and handed on by `grus up`; Grus with random parameters
and no early stop; and Optuna with TPE and its SuccessiveHalvingPruner, four processes on one study in a
journal file. The pruner is given twice, with its defaults and with a later first comparison (a ninth of a
training, factor 3); the one with the lower median is the rival.

A trial is the training of `sweep_live_training`; a step of it takes `--pace` seconds, nearly all of them
rest, so that four trials (and searches side by side) do not fight over the cores. Grus's searches run one
after the other by themselves; then all others at once, each with GPUs of its own. The target is what the
best twentieth of 300 runs by chance reach at their end. A search that has not reached it by `--limit` counts
with what it has taken by then.

All GPUs of a search are charged from its first process on until the target was reported, whether a trial ran
or not. `gpu_hours_ratio` is random's median ÷ Grus's, `asha_ratio` Grus's ÷ Optuna's. `utilisation` is the
part of that time in which trials were in their training loop, by their own journal, over all of Grus's
searches; `gap_s` the median from the end of a trial's loop to the beginning of the next one's on that GPU, of
which `boot_s` is the start of Python with its imports, and `freed_s` what Grus takes.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.grus_server import GrusServer
from benchmarks.machine import facts, wait_until_quiet
from benchmarks.sweep import reference
from benchmarks.sweep_live_figures import Found, middle
from benchmarks.sweep_live_sides import GPUS, GrusSearch, OptunaSearch, finish
from benchmarks.sweep_live_training import STEPS, task

BEST_PART = 0.05
SETTINGS: Mapping[str, Mapping[str, int]] = {
    "default": {},
    "from a ninth on": {"min_resource": STEPS // 9, "reduction_factor": 3},
}


def grus_alone(home: Path, seeds: int, pace: float, target: float, limit: float) -> list[Found]:
    """One search after the other, each on a server of its own."""
    taken = []
    for seed in range(seeds):
        with GrusServer(f"1x{GPUS}x16GB") as server:
            search = GrusSearch(server, home / f"grus-{seed}.journal", seed, pace, target, limit)
            taken += finish([search], limit)
        say(f"Grus, seed {seed}", taken[-1])
    return taken


def the_others(
    home: Path, seeds: int, pace: float, target: float, limit: float
) -> tuple[list[Found], dict[str, list[Found]]]:
    """Random, and Optuna by its settings: all at once."""
    by_chance = {"sampler": "random", "stopping": {"rule": "none", "most": STEPS}, "parallel": GPUS}
    rivals = [(name, seed) for name in SETTINGS for seed in range(seeds)]
    with GrusServer(f"{seeds}x{GPUS}x16GB") as server:
        random = [
            GrusSearch(server, home / f"random-{seed}.journal", seed, pace, target, limit, **by_chance)
            for seed in range(seeds)
        ]
        optuna = [
            OptunaSearch(home / f"optuna-{place}.journal", seed, pace, target, limit, SETTINGS[name])
            for place, (name, seed) in enumerate(rivals)
        ]
        taken = finish([*optuna, *random], limit)
    by_setting = dict[str, list[Found]]()
    for (name, seed), one in zip(rivals, taken, strict=False):
        say(f"Optuna ({name}), seed {seed}", one)
        by_setting.setdefault(name, []).append(one)
    chance = taken[len(rivals) :]
    for seed, one in enumerate(chance):
        say(f"random, seed {seed}", one)
    return chance, by_setting


def say(who: str, one: Found) -> None:
    end = "" if one.reached else ", target not reached"
    used = f"{one.utilisation:.3f} of it at work"
    print(
        f"{who}: {one.gpu_seconds:.1f} GPU-s, {used}, {one.trials} trials{end}", file=sys.stderr, flush=True
    )


def figures(
    grus: Sequence[Found], chance: Sequence[Found], rivals: dict[str, list[Found]]
) -> dict[str, object]:
    held = {name: middle([one.gpu_seconds for one in found]) for name, found in rivals.items()}
    best = min(held, key=lambda name: held[name])
    ours, by_chance = (middle([one.gpu_seconds for one in found]) for found in (grus, chance))
    handovers = [one for found in grus for one in found.handovers]
    times = [middle([one.seconds for one in found]) for found in (grus, chance, rivals[best])]
    return {
        "gpu_hours_ratio": round(by_chance / ours, 3),
        "asha_ratio": round(ours / held[best], 3),
        "asha_ratio_by_setting": {name: round(ours / value, 3) for name, value in held.items()},
        "utilisation": share_at_work(grus),
        "gap_s": middle([one.gap for one in handovers]),
        "freed_s": middle([one.freed for one in handovers]),
        "boot_s": middle([one.boot for one in handovers]),
        "handovers": len(handovers),
        "utilisation_random": share_at_work(chance),
        "gpu_seconds": {
            "grus": ours,
            "random": by_chance,
            **{f"Optuna, {name}": held[name] for name in held},
        },
        "seconds": dict(zip(("grus", "random", "optuna"), times, strict=True)),
        "missed": {
            "grus": _missed(grus),
            "random": _missed(chance),
            **{f"Optuna, {name}": _missed(found) for name, found in rivals.items()},
        },
    }


def share_at_work(found: Sequence[Found]) -> float:
    busy = sum(one.utilisation * one.gpu_seconds for one in found)
    return round(busy / sum(one.gpu_seconds for one in found), 4)


def _missed(found: Sequence[Found]) -> int:
    return sum(not one.reached for one in found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--pace", type=float, default=1.0, help="seconds of a step; a trial has 27")
    parser.add_argument("--limit", type=float, default=150.0, help="seconds until a search is given up")
    given = parser.parse_args()
    target = float(np.nanquantile(reference(task())[:, -1], BEST_PART))
    print(f"target: a loss of {target:.4g}", file=sys.stderr, flush=True)
    busy = wait_until_quiet()
    home = Path(tempfile.mkdtemp(prefix="grus-sweep-live-"))
    try:
        grus = grus_alone(home, given.seeds, given.pace, target, given.limit)
        chance, rivals = the_others(home, given.seeds, given.pace, target, given.limit)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    facts_ = {"gpus": GPUS, "seeds": given.seeds, "pace_s": given.pace, "others_busy": round(busy, 3)}
    print(json.dumps({**figures(grus, chance, rivals), **facts_, **facts()}))


if __name__ == "__main__":
    main()
