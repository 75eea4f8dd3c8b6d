"""Whether forecasts of demand and of GPU use beat what was there a day or a week ago, and keep their word.

    GRUS_DATA=… python -m benchmarks.forecast [--every 7] [--seeds 6] [--first-seed 2000]

Three pieces, hour by hour: the demand of Philly's pool and of each of its virtual clusters (GPUs that jobs
wanted, from submission for as long as they ran; 110 days, the last 21 held back), and 28 generated days of a
GPU's use in four sorts (`benchmarks.gpu_days`, the last 7 held back). The origin rolls through the span held
back, `--every` so many hours; each forecast sees what lies before it and reaches a day ahead. Parameters were
chosen on what lies before the span and on generated seeds below 100. (A first version was held against the
spans, found wanting, and given medians, chosen on those same earlier parts; the seeds are new since then.)

`mase`: the mean absolute error over that of seasonal-naive on the same hours, for the better of its two
seasons (a day, a week) series by series; the mean over the series of a piece, then over the three pieces.
`…_hour` is of the first hour alone. `…_against_day`, `…_against_week`: against one season throughout.
`coverage`: part of the true values inside the 90 % interval, averaged alike; `narrowest`, `widest` coverage
are of single series. A virtual cluster is left out if it wanted less than one GPU on average before the span.

`biggan_mase`: the last half hour of each GPU of the BigGAN traces, 5 s samples, five minutes ahead; the
season is the rhythm recognised in what lies before (a trace without one is held against its last value; a GPU
that rested all that time is left out).
"""

import argparse
import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.gpu_days import KINDS, gpu_days
from benchmarks.machine import facts
from benchmarks.philly import say, trace_file
from grus.patterns.demand_forecast import DAY, WEEK, Nothing, forecast
from grus.patterns.periods import rhythm
from grus.simulator.workload.job_work import TraceJob
from grus.simulator.workload.traces import read_trace

Array = NDArray[np.float64]

HOUR = 3600.0
AHEAD = 24
HELD_BACK = 21 * 24
GENERATED_DAYS = 28
GENERATED_HELD_BACK = 7 * 24
SAMPLE = 5.0
"""Seconds between two samples of BigGAN."""
BIGGAN_HELD_BACK = 360
BIGGAN_AHEAD = 60
SMALLEST = 1.0
"""GPUs that a virtual cluster wanted on average before the span."""


@dataclass(frozen=True, slots=True)
class Score:
    """Of one series: mean absolute errors by distance, of the forecast and of each season; coverage."""

    error: Array
    naive: Mapping[float, Array]
    covered: Array

    def ratio(self, season: float | None = None, first: int | None = None) -> float:
        """Of the first so many distances, against one season, or against the better of them.

        NaN where seasonal-naive made no error at all: that is no measure."""
        seasons = self.naive if season is None else (season,)
        best = min((float(self.naive[one].mean()), one) for one in seasons)[1]
        naive = float(self.naive[best][:first].mean())
        return float(self.error[:first].mean()) / naive if naive > 0 else math.nan

    @property
    def coverage(self) -> float:
        return float(self.covered.mean())


def score(
    values: Array, step: float, ahead: int, held_back: int, every: int, seasons: Sequence[float]
) -> Score | None:
    """Forecasts from origins that roll through the span held back; None if there is no forecast."""
    errors: list[Array] = []
    covered: list[NDArray[np.bool_]] = []
    naive: dict[float, list[Array]] = {season: [] for season in seasons}
    for origin in range(len(values) - held_back, len(values) - ahead + 1, every):
        told = forecast(values[:origin], step, ahead * step, seasons=seasons)
        if isinstance(told, Nothing):
            return None
        truth = values[origin : origin + ahead]
        errors.append(np.abs(told.median - truth))
        # A forecast of exactly nothing, and nothing comes: inside, whatever the last bit of a sum says.
        covered.append((truth >= told.low - 1e-9) & (truth <= told.high + 1e-9))
        for season in seasons:
            naive[season].append(np.abs(truth - _seasonal_naive(values[:origin], season / step, ahead)))
    means = {season: np.mean(found, axis=0) for season, found in naive.items()}
    return Score(np.mean(errors, axis=0), means, np.mean(covered, axis=0))


def _seasonal_naive(past: Array, season: float, ahead: int) -> Array:
    """What was there a season before, or as many seasons as it takes to know it."""
    steps = np.arange(ahead)
    back = np.round(np.ceil((steps + 1) / season) * season).astype(int)
    found: Array = past[len(past) + steps - back]
    return found


# ------------------------------------------------------------------------------------------------- series


def demand(works: Iterable[TraceJob], first: float, hours: int) -> Array:
    """GPUs wanted in each hour on average: every job from its submission on, for as long as it ran."""
    jobs = list(works)
    gpus = np.array([float(job.gpus) for job in jobs])
    begins = np.array([job.submit for job in jobs])
    ends = begins + np.array([job.duration for job in jobs])
    edges = first + HOUR * np.arange(hours + 1, dtype=np.float64)
    found: Array = np.diff(_wanted(begins, gpus, edges) - _wanted(ends, gpus, edges)) / HOUR
    return found


def _wanted(since: Array, gpus: Array, until: Array) -> Array:
    """GPU-seconds up to each of these moments, if each job wanted its GPUs from its moment on for ever."""
    order = np.argsort(since)
    since, gpus = since[order], gpus[order]
    index = np.searchsorted(since, until)
    amounts = np.concatenate(([0.0], np.cumsum(gpus)))[index]
    moments = np.concatenate(([0.0], np.cumsum(gpus * since)))[index]
    found: Array = amounts * until - moments
    return found


def philly(path: Path) -> tuple[Array, dict[str, Array]]:
    """The demand of the pool, and of each virtual cluster that is not asleep."""
    with path.open(encoding="utf-8", newline="") as file:
        works = read_trace(file)
    first = works[0].submit // DAY * DAY
    hours = int((max(work.submit for work in works) - first) // HOUR)
    names = sorted({work.queue for work in works})
    queues = {
        str(name): demand((work for work in works if work.queue == name), first, hours) for name in names
    }
    awake = {name: each for name, each in queues.items() if each[:-HELD_BACK].mean() >= SMALLEST}
    return demand(works, first, hours), awake


def biggan(folder: Path) -> dict[str, Array]:
    """Utilisation of each GPU that was used, from the first sample at which it was."""
    found = {}
    for name in ("gpu-satori.csv", "gpu-use-os.csv"):
        with (folder / name).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        for column in (key for key in rows[0] if key.startswith("gpu")):
            values = np.array([float(row[column] or 0) for row in rows])
            if values.any():
                found[f"{name} {column}"] = values[int(np.argmax(values > 0)) :]
    return found


# -------------------------------------------------------------------------------------------------- pieces


def piece(name: str, series: Mapping[str, Array], held_back: int, every: int) -> dict[str, Score]:
    scores = {}
    for label, values in series.items():
        found = score(values, HOUR, AHEAD, held_back, every, (DAY, WEEK))
        if found is not None:
            scores[label] = found
            say(f"  {name} {label}: {found.ratio():.3f}, coverage {found.coverage:.3f}")
    return scores


def figures_of(name: str, scores: Mapping[str, Score]) -> dict[str, float]:
    every = scores.values()
    return {
        f"{name}_mase": _mean(one.ratio() for one in every),
        f"{name}_mase_hour": _mean(one.ratio(first=1) for one in every),
        f"{name}_against_day": _mean(one.ratio(DAY) for one in every),
        f"{name}_against_week": _mean(one.ratio(WEEK) for one in every),
        f"{name}_coverage": _mean(one.coverage for one in every),
        f"{name}_coverage_hour": _mean(float(one.covered[0]) for one in every),
    }


def biggan_figures(folder: Path) -> dict[str, float]:
    ratios, covered, with_rhythm = [], [], 0
    for label, values in biggan(folder).items():
        beat = rhythm(values[:-BIGGAN_HELD_BACK], SAMPLE)
        season = SAMPLE if beat is None else beat.period
        found = score(values, SAMPLE, BIGGAN_AHEAD, BIGGAN_HELD_BACK, 6, (season,))
        if found is None or math.isnan(found.ratio()):
            continue
        with_rhythm += beat is not None
        ratios.append(found.ratio())
        covered.append(found.coverage)
        say(f"  {label}: season {season:.0f} s, {ratios[-1]:.3f}, coverage {covered[-1]:.3f}")
    return {
        "biggan_mase": _mean(ratios),
        "biggan_coverage": _mean(covered),
        "biggan_traces": len(ratios),
        "biggan_with_rhythm": with_rhythm,
    }


def _mean(values: Iterable[float]) -> float:
    """Of those that are numbers."""
    return round(float(np.mean([value for value in values if not math.isnan(value)])), 4)


def run(path: Path, every: int, seeds: Sequence[int]) -> dict[str, object]:
    pool, queues = philly(path)
    days = {f"{kind} {seed}": gpu_days(kind, GENERATED_DAYS, seed) for kind in KINDS for seed in seeds}
    pieces = {
        "pool": piece("pool", {"": pool}, HELD_BACK, every),
        "queues": piece("queue", queues, HELD_BACK, every),
        "generated": piece("generated", days, GENERATED_HELD_BACK, every),
    }
    by_piece = {
        key: value for name, scores in pieces.items() for key, value in figures_of(name, scores).items()
    }
    by_kind = {
        f"generated_{kind}_mase": _mean(
            one.ratio() for label, one in pieces["generated"].items() if label.startswith(kind)
        )
        for kind in KINDS
    }
    coverages = [one.coverage for scores in pieces.values() for one in scores.values()]
    return {
        "mase": _mean(by_piece[f"{name}_mase"] for name in pieces),
        "coverage": _mean(by_piece[f"{name}_coverage"] for name in pieces),
        **biggan_figures(path.parent.parent / "biggan"),
        **by_piece,
        **by_kind,
        "narrowest": round(min(coverages), 4),
        "widest": round(max(coverages), 4),
        "series": len(coverages),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--every", type=int, default=7, help="hours between two origins (7)")
    parser.add_argument("--seeds", type=int, default=6, help="generated series of each sort (6)")
    parser.add_argument("--first-seed", type=int, default=2000, help="those below 2000 were looked at")
    given = parser.parse_args()
    path = trace_file()
    if path is None:
        say("The Philly trace is not here: GRUS_DATA must name a folder with philly/philly_jobs.csv.")
        return
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    print(json.dumps(run(path, given.every, seeds) | facts()))


if __name__ == "__main__":
    main()
