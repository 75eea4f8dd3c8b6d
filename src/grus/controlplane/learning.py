"""What running jobs teach of their speed: from their reports to the outlooks that the scheduler weighs.

    grus.report(step=120, total=5000)            steps done, and how many there are
    grus.report(step=120, total=5000, batch=256) with the examples of one step, all GPUs together

Two reports at one size give the seconds of a step there; where there is a team, the size is the team's. A
model fitted to the sizes that were run predicts the others; what jobs of the same fingerprint did before
counts too, until the job has its own measurements (`profiles` keeps it). So it is with what a change of size
costs: `stall`, a figure that jobs report, and the time that new workers were seen to need until they joined.
Reports are a job's word: they only ever change how GPUs flow between elastic jobs, never a right to them.
Everything is a function of what was heard; the clock is passed in.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from grus.api import reports
from grus.api.reports import Report
from grus.controlplane.profiles import Profiles
from grus.controlplane.teams import at_work
from grus.model.identifiers import DeviceId, JobId
from grus.model.jobs import Job, Phase, Spec, resizes_live
from grus.model.profiles import Speed
from grus.model.resources import GPU
from grus.model.saving import lost_by_pause
from grus.scheduling.allocation import within_reach
from grus.scheduling.outlook import FIRST_SIZE, NEWS, Outlook
from grus.scheduling.speedup import Profile, Sample, StepModel, dense_shapes, fit, pooled

SHORTEST_LOOK = 5.0
"""Seconds between two reports from which a speed is read."""
FEWEST_STEPS = 3
USUAL_BATCH = 1024.0
"""Of a job that does not tell its batch; only ratios matter then."""
STALL = 1.0
"""Seconds for which those who stay stand still when others come or go, until that was seen."""
BOOT = 30.0
"""Seconds before new workers do work, until that was seen."""
LONGEST = 3600.0
"""Seconds; a job that says that it stood still for longer is not believed."""
SMOOTHING = 0.3
"""Weight of the newest measurement at a size against those before."""
MOST_MODELS = 1000


class Cost(NamedTuple):
    """What a change of size was seen to cost, in seconds; None where it was not seen."""

    stall: float | None = None
    boot: float | None = None

    def over(self, other: "Cost") -> "Cost":
        """The same, with the other's figures where it has none."""
        stall = other.stall if self.stall is None else self.stall
        return Cost(stall, other.boot if self.boot is None else self.boot)


NOTHING_SEEN = Cost()


@dataclass(slots=True)
class _Look:
    """The first report of a team, or of a generation: the next ones are held against it."""

    life: tuple[int, ...]
    step: float
    at: float


@dataclass(slots=True)
class _Pupil:
    """What is known of one job, by type of GPU."""

    seen: dict[str, dict[tuple[int, int], Sample]] = field(default_factory=dict)
    """By nodes and GPUs: how it ran there, smoothed."""
    profiles: dict[str, Profile] = field(default_factory=dict)
    """The same as it was last told; small changes are none."""
    look: _Look | None = None
    told: Outlook | None = None
    cost: Cost = NOTHING_SEEN

    def note(self, kind: str, sample: Sample) -> bool:
        """Take in a measurement; whether it is news."""
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
        self._pupils: dict[JobId, _Pupil] = {}
        self.profiles = profiles or Profiles()
        self._models: dict[tuple[Sample, ...], StepModel] = {}
        self.per_node = 1
        """GPUs of the largest node."""
        self.type_of: Mapping[DeviceId, str] = {}

    def hear(self, job: Job, line: str, now: float) -> Outlook | None:
        """Take in a report of a running job; what the scheduler should now expect of it, if that is new."""
        if not teaches(job.spec):
            return None
        if _shared(job):
            if job.id in self._pupils:
                self._pupils[job.id].look = None  # the next speed is read when it is alone again
            return None
        said = reports.read(line)
        figures = dict(said.figures)
        step = figures.get("step")
        if step is None or said.at is None or job.phase is not Phase.RUNNING:
            return None
        pupil = self._pupils.setdefault(job.id, _Pupil())
        pupil.cost = Cost(_seconds(figures.get("stall")), _seconds(job.boot)).over(pupil.cost)
        if self._measure(pupil, job, step, said, figures):
            self._teach(pupil, job, now)
        found = self._outlook(pupil, job, figures, now)
        if found is None or not found.is_news_to(pupil.told):
            return None
        pupil.told = found
        return found

    def greet(self, job: Job) -> Outlook | None:
        """What is expected of a job that has just come, from others of its fingerprint."""
        if not teaches(job.spec) or not self._before(job)[0]:
            return None
        pupil = self._pupils.setdefault(job.id, _Pupil())
        pupil.told = self._outlook(pupil, job, {}, job.submitted_at)
        return pupil.told

    def ended(self, job: Job) -> None:
        """Keep what a job has shown for the next of its fingerprint."""
        pupil = self._pupils.pop(job.id, None)
        if pupil is not None and pupil.profiles:
            self._teach(pupil, job, job.ended_at or 0.0)

    def _teach(self, pupil: _Pupil, job: Job, now: float) -> None:
        speeds = [
            Speed(type=kind, nodes=one.nodes, gpus=one.gpus, local=one.local, step=one.step)
            for kind, profile in pupil.profiles.items()
            for one in profile.samples
        ]
        self.profiles.taught(job, speeds, pupil.cost.stall, pupil.cost.boot, now)

    def _before(self, job: Job) -> tuple[dict[str, Profile], Cost]:
        """What jobs of its fingerprint have shown: speeds by type of GPU, and what changes cost."""
        known = next((one for one in self.profiles.like(job) if one.speeds), None)
        return (
            ({}, NOTHING_SEEN) if known is None else (_by_type(known.speeds), Cost(known.stall, known.boot))
        )

    def _measure(
        self, pupil: _Pupil, job: Job, step: float, said: Report, figures: Mapping[str, float]
    ) -> bool:
        """Read a speed out of two reports, if they tell one; whether it is news."""
        look, at = pupil.look, said.at or 0.0
        life = (job.attempt, job.team or job.generation, said.word.team)
        # Until all have changed over, and those who leave are gone, steps of two sizes would be mixed.
        settled = said.word.team == job.team and (job.team or not any(seat.leaving for seat in job.seats))
        if look is None or look.life != life or step < look.step or not settled:
            pupil.look = _Look(life, step, at)
            return False
        if at - look.at < SHORTEST_LOOK or step - look.step < FEWEST_STEPS:
            return False
        gpus = size_of(job)
        nodes = len({seat.node for seat in at_work(job)})
        seconds = (at - look.at) / (step - look.step)
        pupil.look = _Look(life, step, at)
        kind = self._kind(job)
        sample = Sample(nodes, gpus, _batch(figures) / gpus, seconds, 0.0)
        return kind is not None and pupil.note(kind, sample)

    def _kind(self, job: Job) -> str | None:
        """The type of GPU that it runs on; None for a mixture, which says nothing of either."""
        kinds = {self.type_of.get(device, "") for seat in at_work(job) for device in seat.devices}
        return next(iter(kinds)) if len(kinds) == 1 else None

    def _outlook(self, pupil: _Pupil, job: Job, figures: Mapping[str, float], now: float) -> Outlook | None:
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
        """Speeds on the types that it was seen on; of one type alone there is nothing to tell."""
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


def _known(pupil: _Pupil, before: Mapping[str, Profile]) -> dict[str, Profile]:
    """Its own measurements by type, and those of its fingerprint where it has none."""
    return {
        kind: pooled(pupil.profiles.get(kind, Profile()), before, kind)
        for kind in sorted({*pupil.profiles, *before})
    }


def _by_type(speeds: Iterable[Speed]) -> dict[str, Profile]:
    found: dict[str, list[Sample]] = {}
    for one in speeds:
        found.setdefault(one.type, []).append(Sample(one.nodes, one.gpus, one.local, one.step, 0.0))
    return {kind: Profile(samples) for kind, samples in found.items()}


def teaches(spec: Spec) -> bool:
    """Whether its speed is asked at all: it runs on whole GPUs."""
    return spec.request.roles[max(0, _elastic(spec))].replica.gpus > 0


def _shared(job: Job) -> bool:
    """Whether another job disturbs it: what it does now says nothing of how fast it is."""
    return job.spec.request.shares and job.held < GPU


def _elastic(spec: Spec) -> int:
    return next((i for i, role in enumerate(spec.request.roles) if not role.replicas.rigid), -1)


def size_of(job: Job) -> int:
    """Whole GPUs that are at work."""
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
    """Of a job of which nobody knows how much is left, the best guess is: as much as it has had."""
    return max(0.0, now - (job.first_started_at or now))
