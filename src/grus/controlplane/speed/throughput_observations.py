"""Speed models of running jobs: turn their reports into the outlooks that the scheduler uses.

    grus.report(step=120, total=5000)            steps done, and how many there are
    grus.report(step=120, total=5000, batch=256) with the examples of one step, all GPUs together

Two reports at one size give the seconds per step at that size; if there is a worker group, the size is the
group's. A model fitted to the measured sizes predicts the others; earlier jobs of the same fingerprint count
too, until the job has its own measurements (`profiles` keeps them). The cost of a change of size is learned
likewise: from `stall`, a metric that jobs report, and from the time that new workers needed until they
joined. Reports are claims of the job: they only ever change how GPUs move between elastic jobs, never a right
to GPUs. Everything is a function of the received reports; the clock is passed in.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from grus.controlplane.fingerprint.profile_cache import Profiles
from grus.controlplane.jobs.worker_group_membership import at_work
from grus.model.identifiers import DeviceId, JobId
from grus.model.jobs import Job, Phase, Spec, resizes_live
from grus.model.profiles import Speed
from grus.model.resources import GPU
from grus.model.saving import lost_by_pause
from grus.model.worker_reports import report_lines
from grus.model.worker_reports.report_lines import WorkerReport
from grus.scheduler.elasticity.size_values import within_reach
from grus.scheduler.elasticity.throughput_model import (
    Profile,
    StepModel,
    StepSample,
    dense_shapes,
    fit,
    pooled,
)
from grus.scheduler.elasticity.throughput_outlook import FIRST_SIZE, NEWS, Outlook

SHORTEST_LOOK = 5.0
"""Minimum seconds between two reports from which a speed is read."""
FEWEST_STEPS = 3
USUAL_BATCH = 1024.0
"""Batch size of a job that does not report it; only ratios matter then."""
STALL = 1.0
"""Default seconds for which the staying workers stand still when others join or leave, until measured."""
BOOT = 30.0
"""Default seconds before new workers do work, until measured."""
LONGEST = 3600.0
"""Seconds; a longer reported stall is ignored."""
SMOOTHING = 0.3
"""Weight of the newest measurement at a size against those before."""
MOST_MODELS = 1000


class Cost(NamedTuple):
    """Measured cost of a change of size, in seconds; None if it was not measured."""

    stall: float | None = None
    boot: float | None = None

    def over(self, other: "Cost") -> "Cost":
        """Return the same, with the other's values for missing ones."""
        stall = other.stall if self.stall is None else self.stall
        return Cost(stall, other.boot if self.boot is None else self.boot)


NOTHING_SEEN = Cost()


@dataclass(slots=True)
class _FirstReport:
    """First report of a worker group, or of a rendezvous round: later reports are compared with it."""

    life: tuple[int, ...]
    step: float
    at: float


@dataclass(slots=True)
class _LearnedJob:
    """Learned data about one job, by type of GPU."""

    seen: dict[str, dict[tuple[int, int], StepSample]] = field(default_factory=dict)
    """Smoothed measurements by number of nodes and GPUs."""
    profiles: dict[str, Profile] = field(default_factory=dict)
    """Profiles as last published; small changes are not published."""
    look: _FirstReport | None = None
    told: Outlook | None = None
    cost: Cost = NOTHING_SEEN

    def note(self, kind: str, sample: StepSample) -> bool:
        """Record a measurement; return whether it is news."""
        key = (sample.nodes, sample.gpus)
        seen = self.seen.setdefault(kind, {})
        before = seen.get(key)
        if before is not None:
            step = (1 - SMOOTHING) * before.step + SMOOTHING * sample.step
            sample = replace(sample, step=step)
        seen[key] = sample
        known = self.profiles.get(kind, Profile())
        told = {(one.nodes, one.gpus): one for one in known.samples}
        if key in told and abs(told[key].step / sample.step - 1) <= NEWS:
            return False
        self.profiles[kind] = Profile(seen.values())
        return True


class Learning:
    """All jobs that report. Belongs to the loop's thread; what it teaches outlasts it in `profiles`."""

    def __init__(self, profiles: Profiles | None = None) -> None:
        self._pupils: dict[JobId, _LearnedJob] = {}
        self.profiles = profiles or Profiles()
        self._models: dict[tuple[StepSample, ...], StepModel] = {}
        self.per_node = 1
        """GPUs of the largest node."""
        self.type_of: Mapping[DeviceId, str] = {}

    def hear(self, job: Job, line: str, now: float) -> Outlook | None:
        """Record a report of a running job; return the new outlook for the scheduler, if it changed."""
        if not teaches(job.spec):
            return None
        if _shared(job):
            if job.id in self._pupils:
                self._pupils[job.id].look = None  # the next speed is read when it is alone again
            return None
        said = report_lines.read(line)
        figures = dict(said.figures)
        step = figures.get("step")
        if step is None or said.at is None or job.phase is not Phase.RUNNING:
            return None
        pupil = self._pupils.setdefault(job.id, _LearnedJob())
        pupil.cost = Cost(_seconds(figures.get("stall")), _seconds(job.boot)).over(pupil.cost)
        if self._measure(pupil, job, step, said, figures):
            self._teach(pupil, job, now)
        found = self._outlook(pupil, job, figures, now)
        if found is None or not found.is_news_to(pupil.told):
            return None
        pupil.told = found
        return found

    def greet(self, job: Job) -> Outlook | None:
        """Return the expected outlook of a new job, from other jobs of its fingerprint."""
        if not teaches(job.spec) or not self._before(job)[0]:
            return None
        pupil = self._pupils.setdefault(job.id, _LearnedJob())
        pupil.told = self._outlook(pupil, job, {}, job.submitted_at)
        return pupil.told

    def ended(self, job: Job) -> None:
        """Keep the measurements of a job for the next one of its fingerprint."""
        pupil = self._pupils.pop(job.id, None)
        if pupil is not None and pupil.profiles:
            self._teach(pupil, job, job.ended_at or 0.0)

    def _teach(self, pupil: _LearnedJob, job: Job, now: float) -> None:
        speeds = [
            Speed(type=kind, nodes=one.nodes, gpus=one.gpus, local=one.local, step=one.step)
            for kind, profile in pupil.profiles.items()
            for one in profile.samples
        ]
        self.profiles.taught(job, speeds, pupil.cost.stall, pupil.cost.boot, now)

    def _before(self, job: Job) -> tuple[dict[str, Profile], Cost]:
        """Return the results of earlier jobs of its fingerprint: speeds by type of GPU, and the cost of size
        changes.
        """
        known = next((one for one in self.profiles.like(job) if one.speeds), None)
        return (
            ({}, NOTHING_SEEN) if known is None else (_by_type(known.speeds), Cost(known.stall, known.boot))
        )

    def _measure(
        self, pupil: _LearnedJob, job: Job, step: float, said: WorkerReport, figures: Mapping[str, float]
    ) -> bool:
        """Read a speed from two reports, if they show one; return whether it is news."""
        look, at = pupil.look, said.at or 0.0
        life = (job.attempt, job.team or job.generation, said.word.team)
        # Until all workers have changed over, and the leaving ones are gone, steps of two sizes would be
        # mixed.
        settled = said.word.team == job.team and (job.team or not any(seat.leaving for seat in job.seats))
        if look is None or look.life != life or step < look.step or not settled:
            pupil.look = _FirstReport(life, step, at)
            return False
        if at - look.at < SHORTEST_LOOK or step - look.step < FEWEST_STEPS:
            return False
        gpus = size_of(job)
        nodes = len({seat.node for seat in at_work(job)})
        seconds = (at - look.at) / (step - look.step)
        pupil.look = _FirstReport(life, step, at)
        kind = self._kind(job)
        sample = StepSample(nodes, gpus, _batch(figures) / gpus, seconds, 0.0)
        return kind is not None and pupil.note(kind, sample)

    def _kind(self, job: Job) -> str | None:
        """Return the type of GPU that it runs on; None for a mixture, which says nothing about either."""
        kinds = {self.type_of.get(device, "") for seat in at_work(job) for device in seat.devices}
        return next(iter(kinds)) if len(kinds) == 1 else None

    def _outlook(
        self, pupil: _LearnedJob, job: Job, figures: Mapping[str, float], now: float
    ) -> Outlook | None:
        before, costs = self._before(job)
        known = _known(pupil, before)
        if not known:
            return None
        own = self._kind(job) if job.staying else None
        kind = own if own in known else max(known, key=lambda name: (known[name].version, name))
        at = _elastic(job.spec)
        each = job.spec.request.roles[max(0, at)].replica.gpus
        allowed = job.spec.request.allowed if at >= 0 else ()
        reach = within_reach([size * each for size in allowed], known[kind].most_seen, FIRST_SIZE * each)
        batch = _batch(figures)
        alone, *rest = self._seconds(known[kind], [each, *reach], batch)
        steps = _steps_left(figures)
        cost = pupil.cost.over(costs)
        boot = BOOT if cost.boot is None else cost.boot
        stall = STALL if cost.stall is None else cost.stall
        live = resizes_live(job)
        return Outlook(
            sizes=tuple(size // each for size in reach),
            speeds=tuple(alone / one for one in rest),
            left=steps * alone if steps is not None else _age(job, now),
            stall=stall if live else boot + lost_by_pause(job, now),
            boot=boot if live else 0.0,  # A restart is one boot, of all workers at once.
            types=self._types(known, [each], batch),
            known=steps is not None,
        )

    def _types(
        self, known: Mapping[str, Profile], gpus: list[int], batch: float
    ) -> tuple[tuple[str, float], ...]:
        """Return speeds on the types that it ran on; of one type alone there is nothing to compare."""
        if len(known) < 2:
            return ()
        return tuple((kind, 1.0 / self._seconds(known[kind], gpus, batch)[0]) for kind in sorted(known))

    def _seconds(self, profile: Profile, gpus: list[int], batch: float) -> list[float]:
        """Predicted seconds of a step of the same batch on so many GPUs, packed densely."""
        model = self._models.get(profile.samples)
        if model is None:
            if len(self._models) >= MOST_MODELS:
                self._models.clear()
            model = self._models[profile.samples] = fit(profile.samples)
        nodes = [nodes for nodes, _ in dense_shapes(gpus, max(1, self.per_node))]
        _, seconds = model.times(nodes, gpus, [batch / one for one in gpus])
        return [float(one) for one in seconds]


def _known(pupil: _LearnedJob, before: Mapping[str, Profile]) -> dict[str, Profile]:
    """Return its own measurements by type, and those of its fingerprint for missing ones."""
    return {
        kind: pooled(pupil.profiles.get(kind, Profile()), before, kind)
        for kind in sorted({*pupil.profiles, *before})
    }


def _by_type(speeds: Iterable[Speed]) -> dict[str, Profile]:
    found: dict[str, list[StepSample]] = {}
    for one in speeds:
        found.setdefault(one.type, []).append(StepSample(one.nodes, one.gpus, one.local, one.step, 0.0))
    return {kind: Profile(samples) for kind, samples in found.items()}


def teaches(spec: Spec) -> bool:
    """Return whether its speed is measured at all: it runs on whole GPUs."""
    return spec.request.roles[max(0, _elastic(spec))].replica.gpus > 0


def _shared(job: Job) -> bool:
    """Return whether it shares its GPU with another job: its present speed then says nothing about its own
    speed.
    """
    return job.spec.request.shares and job.held < GPU


def _elastic(spec: Spec) -> int:
    return next((i for i, role in enumerate(spec.request.roles) if not role.replicas.rigid), -1)


def size_of(job: Job) -> int:
    """Return the number of whole GPUs at work."""
    return max(1, sum(seat.held for seat in at_work(job)) // GPU)


def _seconds(said: float | None) -> float | None:
    return said if said is not None and 0 <= said <= LONGEST else None


def _batch(figures: Mapping[str, float]) -> float:
    batch = figures.get("batch", USUAL_BATCH)
    return batch if 1 <= batch < 1e12 else USUAL_BATCH


def _steps_left(figures: Mapping[str, float]) -> float | None:
    step, total = figures.get("step"), figures.get("total")
    return max(0.0, total - step) if step is not None and total is not None else None


def _age(job: Job, now: float) -> float:
    """Estimate the remaining time of a job without a known total: as long as it has run so far."""
    return max(0.0, now - (job.first_started_at or now))
