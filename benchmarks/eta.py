"""Whether forecasts keep their word: Philly's last two weeks, foreseen job by job as they were submitted.

    GRUS_DATA=… python -m benchmarks.eta [--jobs 1000] [--worlds 10] [--seed 0] [--all]

The truth is what the simulator does with the true lengths in the pool of `benchmarks.philly` (640 GPUs, one
queue a virtual cluster). While it runs, a sample of the jobs of the last two weeks is foreseen at the moment
of their submission, from what was known by then: lengths of ended jobs, ages of running ones, who waits, what
came in the two weeks before. A job that the scheduler starts at once is foreseen by its own length; for one
that waits the present is played forward. Jobs of the two weeks before are foreseen too, a smaller sample,
for the calibration to begin with; nothing that ended later than a job was submitted is used for it.

`p50_coverage`, `p90_coverage`: part of the jobs that ended by the P50 and P90 that were told (calibrated);
`raw_…` the same before calibration. `median_error_s`: median of |end − P50|. `pinball_ratio`: pinball losses
of completion times (submission to end) at 0.5 and 0.9 in seconds, summed over the jobs, over the same of
predicting from the history's quantiles alone: the median and ninth decile of the completion times of all
jobs of the same virtual cluster that had ended by the submission. `recent_pinball_ratio`: against quantiles
of the last two weeks' completion times of the virtual cluster instead. `start_…` are about the starts of jobs
that had to wait: the others start at once, and are told so. `forecast_s`: CPU time of one forecast.
"""

import argparse
import json
import random
import sys
import time
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.machine import facts
from benchmarks.philly import POOL, say, trace_file
from grus.model.identifiers import JobId, QueueName
from grus.model.queues import Queue
from grus.scheduler.decisions import Decisions, Start
from grus.simulator.cluster_spec import parse_nodes, quotas_by_use
from grus.simulator.events.decision_executor import Costs
from grus.simulator.events.job_progress import SimulatedRun
from grus.simulator.forecasting.calibration import ForecastOutcome, calibrate, outcome
from grus.simulator.forecasting.durations import Durations
from grus.simulator.forecasting.eta_prediction import Forecast, Present, forecast
from grus.simulator.forecasting.expected_duration import ForecastJob, expected, traits_of
from grus.simulator.forecasting.quantiles import LEVELS, Chances
from grus.simulator.simulator import Simulation
from grus.simulator.workload.job_work import TraceJob
from grus.simulator.workload.traces import read_trace

DAY = 86400.0
JUDGED = 14 * DAY
WARM_UP = 14 * DAY
WARM_UP_PART = 0.5
"""Of the number of judged jobs, so many are foreseen in the weeks before, for calibration."""
FEWEST = 20
"""Completion times of its virtual cluster, below which the baseline takes those of all."""


def at_once(one: ForecastJob, durations: Durations, now: float) -> Forecast:
    """Forecast a job that starts now: only its own length is unknown."""
    known = expected(one, durations, now)
    start = Chances((now,) * len(LEVELS))
    if known.unknown:
        return Forecast(one.job.id, now, start, unknown=known.unknown)
    boot = Costs().start
    left = np.maximum(known.lengths(np.array(LEVELS)) - known.ran, 0.0)
    return Forecast(one.job.id, now, start, Chances(tuple((now + boot + left).tolist())))


@dataclass(slots=True, kw_only=True)
class Told:
    """One forecast, as it was told, and the baseline's."""

    work: TraceJob
    judged: bool
    waited: bool
    raw: Forecast
    p50: float
    p90: float
    start_p50: float
    start_p90: float
    baseline: tuple[float, float]
    recent: tuple[float, float]
    started: float | None = None
    ended: float | None = None


@dataclass(slots=True)
class Past:
    """Completion times of one virtual cluster, in the order of the ends."""

    ends: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def quantiles(self, since: float) -> tuple[float, float]:
        first = int(np.searchsorted(self.ends, since))
        low, high = np.quantile(self.times[first:], (0.5, 0.9))
        return float(low), float(high)

    def count(self, since: float) -> int:
        return len(self.ends) - int(np.searchsorted(self.ends, since))


class Observer:
    """Looks over the shoulder of the true simulation, and foresees."""

    def __init__(self, queues: list[Queue], asked: set[JobId], judged_from: float, worlds: int) -> None:
        self.told: list[Told] = []
        self.cpu: list[float] = []
        self._queues = tuple(queues)
        self._asked = asked
        self._judged_from = judged_from
        self._worlds = worlds
        self._durations = Durations()
        self._arrived = self._ended = 0
        self._open: dict[JobId, Told] = {}
        self._past: dict[QueueName | None, Past] = {None: Past()}
        self._lengths: dict[JobId, float] = {}

    def watch(self, simulation: Simulation, decisions: Decisions) -> None:
        now = simulation.now
        self._note_ends(simulation)
        new = []
        while self._arrived < len(simulation.arrivals) and simulation.arrivals[self._arrived].submit <= now:
            work = simulation.arrivals[self._arrived]
            self._arrived += 1
            self._durations.came(work.id, traits_of(work.job()), now)
            if work.id in self._asked:
                new.append(work)
        starting = {action.job for action in decisions.actions if isinstance(action, Start)}
        if new:
            self._foresee(simulation, new, starting)
        for job in starting:
            run = simulation.effects.runs[job]
            if run.job.first_started_at == now:
                self._durations.began(job, traits_of(run.job), now)
                if job in self._open and self._open[job].started is None:
                    self._open[job].started = now

    def _note_ends(self, simulation: Simulation) -> None:
        ended = simulation.effects.ended
        for ran in ended[self._ended :]:
            job, queue = ran.work.id, ran.work.queue
            assert ran.ended is not None
            self._durations.ended(job, ran.work.duration)
            self._lengths[job] = ran.work.duration
            for past in (self._past.setdefault(queue, Past()), self._past[None]):
                past.ends.append(ran.ended)
                past.times.append(ran.ended - ran.work.submit)
            if job in self._open:
                self._open.pop(job).ended = ran.ended
        self._ended = len(ended)

    def _foresee(self, simulation: Simulation, new: list[TraceJob], starting: set[JobId]) -> None:
        now, runs = simulation.now, simulation.effects.runs
        began = time.process_time()
        found = {
            work.id: at_once(ForecastJob(runs[work.id].job), self._durations, now)
            for work in new
            if work.id in starting
        }
        if waiting := [work.id for work in new if work.id not in starting]:
            jobs = tuple(ForecastJob(run.job, _ran(run, now)) for run in runs.values())
            present = Present(now, simulation.snapshot.nodes, self._queues, jobs)
            past = self._lately(simulation, now)
            found |= forecast(
                present,
                self._durations,
                asked=waiting,
                arrivals=past,
                worlds=self._worlds,
                seed=len(self.told),
            )
            self.cpu.append(time.process_time() - began)
        ends, starts = (calibrate(self._outcomes(kind, now)) for kind in ("end", "start"))
        for work in new:
            raw = found[work.id]
            if raw.end is None or raw.start is None:
                say(f"  nothing can be said of {work.id}: {raw.unknown}")
                continue
            waited = work.id not in starting
            told = Told(
                work=work,
                judged=work.submit >= self._judged_from,
                waited=waited,
                raw=raw,
                p50=ends.read(raw.end, 0.5),
                p90=ends.read(raw.end, 0.9),
                start_p50=starts.read(raw.start, 0.5) if waited else now,
                start_p90=starts.read(raw.start, 0.9) if waited else now,
                baseline=self._baseline(work, now, 0.0),
                recent=self._baseline(work, now, now - JUDGED),
            )
            self.told.append(told)
            self._open[work.id] = told
        if len(self.told) % 50 == 0:
            say(f"  {len(self.told)} forecasts, {len(self.cpu)} played forward")

    def _outcomes(self, kind: str, now: float) -> list[ForecastOutcome]:
        if kind == "end":
            return [outcome(one.raw.end, one.ended, now) for one in self.told if one.raw.end]
        waited = [one for one in self.told if one.waited and one.raw.start]
        return [outcome(one.raw.start, one.started, now) for one in waited if one.raw.start]

    def _lately(self, simulation: Simulation, now: float) -> list[TraceJob]:
        """What came of late, with its length; what still runs or waits with twice its age."""
        works = []
        for work in simulation.arrivals[: self._arrived]:
            if work.submit > now - JUDGED:
                length = self._lengths.get(work.id)
                if length is None:
                    length = max(60.0, 2 * _ran(simulation.effects.runs[work.id], now))
                works.append(replace(work, duration=length))
        return works

    def _baseline(self, work: TraceJob, now: float, since: float) -> tuple[float, float]:
        own = self._past.get(work.queue)
        past = own if own is not None and own.count(since) >= FEWEST else self._past[None]
        low, high = past.quantiles(since)
        return now + low, now + high


def _ran(run: SimulatedRun, now: float) -> float:
    """Seconds of work that it has done by now: its age as everybody can see it."""
    return run.done + max(0.0, now - run.since) * run.rate


def pinball(happened: float, told: float, level: float) -> float:
    miss = happened - told
    return level * miss if miss >= 0 else (level - 1.0) * miss


def judge(told: list[Told]) -> dict[str, object]:
    done = [one for one in told if one.judged and one.ended is not None]

    def loss(kind: str) -> float:
        pairs = [(one, (one.p50, one.p90) if kind == "told" else getattr(one, kind)) for one in done]
        return sum(
            pinball(one.ended or 0.0, low, 0.5) + pinball(one.ended or 0.0, high, 0.9)
            for one, (low, high) in pairs
        )

    def part(kept: list[bool]) -> float:
        return round(float(np.mean(kept)), 4) if kept else 0.0

    waited = [one for one in done if one.waited and one.started is not None]
    misses = [abs((one.ended or 0.0) - one.p50) for one in done]
    naive = [abs((one.ended or 0.0) - one.baseline[0]) for one in done]
    return {
        "jobs": len(done),
        "jobs_that_waited": len(waited),
        "p50_coverage": part([(one.ended or 0.0) <= one.p50 for one in done]),
        "p90_coverage": part([(one.ended or 0.0) <= one.p90 for one in done]),
        "median_error_s": round(float(np.median(misses)), 1),
        "baseline_median_error_s": round(float(np.median(naive)), 1),
        "pinball_ratio": round(loss("told") / loss("baseline"), 4),
        "recent_pinball_ratio": round(loss("told") / loss("recent"), 4),
        "raw_p50_coverage": part(
            [(one.ended or 0.0) <= one.raw.end.quantile(0.5) for one in done if one.raw.end]
        ),
        "raw_p90_coverage": part(
            [(one.ended or 0.0) <= one.raw.end.quantile(0.9) for one in done if one.raw.end]
        ),
        "start_p50_coverage": part([(one.started or 0.0) <= one.start_p50 for one in waited]),
        "start_p90_coverage": part([(one.started or 0.0) <= one.start_p90 for one in waited]),
        "start_median_error_s": round(
            float(np.median([abs((one.started or 0.0) - one.start_p50) for one in waited] or [0.0])), 1
        ),
        "median_wait_s": round(
            float(np.median([(one.started or 0.0) - one.work.submit for one in waited] or [0.0])), 1
        ),
    }


def sampled(works: list[TraceJob], count: int | None, seed: int) -> tuple[set[JobId], float]:
    """Which jobs are foreseen, and from when on they are judged."""
    last = works[-1].submit
    judged = [work.id for work in works if work.submit >= last - JUDGED]
    before = [work.id for work in works if last - JUDGED - WARM_UP <= work.submit < last - JUDGED]
    rng = random.Random(seed)
    most = len(judged) if count is None else min(count, len(judged))
    chosen = set(rng.sample(judged, most)) | set(
        rng.sample(before, min(len(before), int(most * WARM_UP_PART)))
    )
    return chosen, last - JUDGED


def replay(count: int | None, worlds: int, seed: int) -> dict[str, object]:
    path = trace_file()
    assert path is not None
    with path.open(encoding="utf-8", newline="") as file:
        works = read_trace(file)
    nodes = parse_nodes(POOL)
    queues = quotas_by_use(works, nodes)
    asked, judged_from = sampled(works, count, seed)
    observer = Observer(queues, asked, judged_from, worlds)
    simulation = Simulation(nodes, queues, works, watch=observer.watch)
    simulation.run(lambda done, total: say(f"  {done} of {total} jobs"), every=20_000)
    observer.watch(simulation, Decisions(()))  # the last ends
    figures = judge(observer.told)
    spent = np.array(observer.cpu or [0.0])
    return figures | {
        "worlds": worlds,
        "forecast_s_p50": round(float(np.median(spent)), 3),
        "forecast_s_max": round(float(spent.max()), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1000, help="how many jobs are judged")
    parser.add_argument("--all", action="store_true", help="judge every job of the last two weeks")
    parser.add_argument("--worlds", type=int, default=10, help="futures played for each forecast")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if trace_file() is None:
        say("The Philly trace is not here: GRUS_DATA must name a folder with philly/philly_jobs.csv.")
        sys.exit(0)
    figures = replay(None if given.all else given.jobs, given.worlds, given.seed)
    print(json.dumps(figures | facts()))


if __name__ == "__main__":
    main()
