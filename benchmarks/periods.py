"""How well rhythm is recognised: made-up traces with a known answer, and BigGAN's real ones.

    [GRUS_DATA=…] python -m benchmarks.periods [--series N] [--seed N]

`right` is the share of trainings whose period is told within 5 %, `wrong` of those told another; `false` the
share of series without a rhythm that are given one, by sort in `false_by_sort`. The original rule and the
library see the same series (`periods_rivals`), the library, which is slow, a quarter of them; `library` names
its detector with most right answers, of which it may give several.
`right_by_cycles`, `right_by_samples` and `right_by_jitter` are the shares by how many periods a series holds,
how many samples a period has, and how much its length varies (the last by other series, of 30 s periods).
`boundary_off` is by how much of a period, in the median, the told beginning of an epoch is off.
`online_right` and `online_false` are by samples added one by one, at their end. BigGAN is apart, in windows
of 120 samples, sample by sample (`biggan_online_…`: parts of the time) and, as `biggan_samples`, as a whole:
of Satori's GPUs only the period is known (about 18
samples), of OpenShift's nothing.
"""

import argparse
import csv
import json
import os
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.machine import facts
from benchmarks.periods_rivals import LIBRARY, WINDOW, Finder, original, original_whole
from benchmarks.periods_traces import NEGATIVES, Floats, Trace, aimless, drifting, training
from grus.patterns.online import Beat
from grus.patterns.periods import rhythm

SEED = 2026  # Others were used for tuning.
NEAR = 0.05
TIMED, TIMED_SAMPLES = 40, 3600
ONLINE_SAMPLES = 8000  # Longer series are left out where samples are added one by one.
SLOW = 4  # The library and samples one by one are given the first quarter of the series.
SATORI = 18.0


def ours(values: Floats, step: float) -> Sequence[float]:
    found = rhythm(values, step)
    return () if found is None else (found.period,)


def online(values: Floats, step: float) -> Sequence[float]:
    """The answer of a `Beat` that is asked after each sample, at the end."""
    beat, found = Beat(), None
    for number, value in enumerate(values.tolist()):
        beat.add(number * step, value)
        found = beat.found(number * step)
    return () if found is None else (found.period,)


def shares(find: Finder, trainings: Sequence[Trace], others: Sequence[Trace]) -> dict[str, float]:
    """Of trainings: told right, told wrong; of the others: told at all."""
    told = [(trace, find(trace.values, trace.step)) for trace in trainings]
    right = sum(near(trace.period, periods) for trace, periods in told)
    wrong = sum(bool(periods) for _, periods in told) - right
    false = sum(bool(find(trace.values, trace.step)) for trace in others)
    return {
        "right": round(right / len(trainings), 4),
        "wrong": round(wrong / len(trainings), 4),
        "false": round(false / len(others), 4),
    }


def near(true: float | None, told: Sequence[float]) -> bool:
    """Whether one of the periods is the true one, or close enough."""
    return true is not None and any(abs(period / true - 1) <= NEAR for period in told)


def boundary_off(trainings: Iterable[Trace]) -> float:
    """Median distance between the told beginning of an epoch and the nearest true one, in periods."""
    offs = list[float]()
    for trace in trainings:
        found = rhythm(trace.values, trace.step, start=trace.step / 2)
        if found is not None and trace.began is not None and near(trace.period, (found.period,)):
            late = (found.boundary - trace.began) / found.period
            offs.append(abs(late - round(late)))
    return round(statistics.median(offs), 4)


def milliseconds(seed: int) -> float:
    """Median time for a series of 3,600 samples: trainings and drifts, half and half."""
    times = list[float]()
    for number in range(TIMED):
        chance = np.random.default_rng([seed, 3, number])
        whole = [training(chance, 90.0).values for _ in range(10)]
        for values in (np.concatenate(whole)[:TIMED_SAMPLES], drifting(TIMED_SAMPLES, 0.9, chance)):
            begin = time.perf_counter()
            rhythm(values, 1.0)
            times.append(time.perf_counter() - begin)
    return round(1000 * statistics.median(times), 3)


def biggan() -> dict[str, object]:
    folder = os.environ.get("GRUS_DATA")
    files = [
        Path(folder or "/nonexistent") / "biggan" / name for name in ("gpu-satori.csv", "gpu-use-os.csv")
    ]
    if not all(file.is_file() for file in files):
        return {"biggan": "not here: GRUS_DATA names no folder with biggan/gpu-satori.csv"}
    satori, openshift = (
        columns(files[0], ("gpu0", "mem0", "gpu1", "mem1")),
        columns(files[1], ("gpu0", "mem0")),
    )
    cuts, others = windows(satori), windows(openshift)
    figures: dict[str, object] = {
        "biggan_samples": [round(period, 2) for series in satori for period in ours(series, 1.0)]
    }
    for name, find in {"": ours, "original_": original, "library_": LIBRARY["Autoperiod"]}.items():
        told = [find(series, 1.0) for series in cuts]
        right = sum(near(SATORI, periods) for periods in told)
        figures[f"biggan_{name}right"] = round(right / len(cuts), 4)
        figures[f"biggan_{name}wrong"] = round(
            (sum(bool(periods) for periods in told) - right) / len(cuts), 4
        )
        tagged = sum(bool(find(series, 1.0)) for series in others)
        figures[f"biggan_{name}openshift"] = round(tagged / len(others), 4)
    return figures | followed(satori)


def followed(series: Iterable[Floats]) -> dict[str, object]:
    """Parts of the time, from the 120th sample on, in which a `Beat` tells the right and another period."""
    told = list[Sequence[float]]()
    for values in series:
        beat = Beat()
        for number, value in enumerate(values.tolist()):
            beat.add(float(number), value)
            found = beat.found(float(number))
            if number >= WINDOW:
                told.append(() if found is None else (found.period,))
    right = sum(near(SATORI, periods) for periods in told)
    wrong = sum(map(bool, told)) - right
    return {
        "biggan_online_right": round(right / len(told), 4),
        "biggan_online_wrong": round(wrong / len(told), 4),
    }


def columns(file: Path, names: Sequence[str]) -> list[Floats]:
    with file.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    return [np.array([float(row[name]) for row in rows]) for name in names]


def windows(series: Iterable[Floats]) -> list[Floats]:
    return [
        each[first : first + WINDOW] for each in series for first in range(0, len(each) - WINDOW, WINDOW // 2)
    ]


def by_sort(others: Sequence[Trace]) -> dict[str, float]:
    told = {
        sort: [ours(each.values, each.step) for each in others if each.sort == sort] for sort in NEGATIVES
    }
    return {sort: round(sum(map(bool, found)) / len(found), 4) for sort, found in told.items()}


def limits(trainings: Sequence[Trace], seed: int) -> dict[str, object]:
    """Shares of right answers by what makes it hard."""
    cycles, samples = dict[str, list[bool]](), dict[str, list[bool]]()
    for trace in trainings:
        assert trace.period is not None
        right = near(trace.period, ours(trace.values, trace.step))
        held = len(trace.values) * trace.step / trace.period
        cycles.setdefault(bucket(held, (6, 10, 20, 40)), []).append(right)
        samples.setdefault(bucket(trace.period / trace.step, (6, 10, 30, 100, 1800)), []).append(right)
    jitter = {
        f"{spread:.0%}": [near(each.period, ours(each.values, each.step)) for each in jittered(spread, seed)]
        for spread in (0.0, 0.03, 0.06, 0.1, 0.15)
    }
    return {
        f"right_by_{name}": means(part)
        for name, part in (("cycles", cycles), ("samples", samples), ("jitter", jitter))
    }


def jittered(spread: float, seed: int) -> list[Trace]:
    return [training(np.random.default_rng([seed, 4, number]), 30.0, spread) for number in range(TIMED)]


def bucket(value: float, ends: Sequence[float]) -> str:
    return next((f"<={end}" for end in ends if value <= end), f">{ends[-1]}")


def means(parts: dict[str, list[bool]]) -> dict[str, float]:
    order = sorted(parts, key=lambda name: float(name.strip("<=>%")))
    return {name: round(statistics.mean(parts[name]), 3) for name in order}


def measure(series: int, seed: int) -> dict[str, object]:
    trainings = [training(np.random.default_rng([seed, 1, number])) for number in range(series)]
    each = max(1, series // 5)
    others = [
        aimless(sort, np.random.default_rng([seed, 2, number, place]))
        for number in range(each)
        for place, sort in enumerate(NEGATIVES)
    ]
    figures: dict[str, object] = dict(shares(ours, trainings, others))
    say(f"  Grus: {figures}")
    figures |= prefixed("original", shares(original, trainings, others))
    figures |= prefixed("original_whole", shares(original_whole, trainings, others))
    say("  the original rule: done")
    library = dict[str, dict[str, float]]()
    for name, find in LIBRARY.items():
        library[name] = shares(find, trainings[: series // SLOW], others[: len(others) // SLOW])
        say(f"  pyriodicity's {name}: {library[name]}")
    best = max(library, key=lambda name: library[name]["right"])
    figures |= {"library": best, "libraries": library}
    figures |= prefixed("library", library[best])
    short, few = [
        [each for each in part if len(each.values) <= ONLINE_SAMPLES] for part in (trainings, others)
    ]
    figures |= prefixed("online", shares(online, short[: series // SLOW], few[: len(others) // SLOW]))
    say("  samples one by one: done")
    figures |= {"boundary_off": boundary_off(trainings), "false_by_sort": by_sort(others)}
    figures |= limits(trainings, seed)
    figures |= {
        "ms_per_series": milliseconds(seed),
        "series": series,
        "series_without": len(others),
        "series_library": series // SLOW,
    }
    return figures | biggan()


def prefixed(name: str, figures: dict[str, float]) -> dict[str, float]:
    return {f"{name}_{key}": value for key, value in figures.items()}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--series", type=int, default=500, help="trainings; each other sort has a fifth")
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    print(json.dumps(measure(given.series, given.seed) | facts()))


if __name__ == "__main__":
    main()
