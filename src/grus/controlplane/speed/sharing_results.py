"""GPU sharing measurements: the use of a GPU by each job that may share one, and the gain when two shared.
`packing` decides by them.

While such a job has its GPU alone, its utilization and peak memory are taken from its tag and its speed from
its reports. While two share one, the speed of each is compared with that: the sum is their gain. All of it is
kept under their fingerprints (`profiles`), so that the next jobs of the same kind are known before they
start. Reports are claims of the job: a false report only causes its job to share a GPU, or not to share it.
Belongs to the loop's thread; the clock is passed in.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple

from grus.controlplane.fingerprint.profile_cache import Profiles
from grus.model.activity_labels import Tag, TrainingStage
from grus.model.identifiers import JobId
from grus.model.jobs import Job, Phase
from grus.model.profiles import JobProfile
from grus.model.resources import GPU
from grus.model.worker_reports import report_lines
from grus.scheduler.preempt.epoch_windows import MEMORY_NEWS, USE_NEWS
from grus.scheduler.state.gpu_footprint import Footprint

SHORTEST_LOOK = 5.0
"""Seconds between two reports from which a speed is read."""
FEWEST_STEPS = 3
LOOKS = 2
"""Speeds of each of a pair from which their gain is computed."""
SMOOTHING = 0.3
"""Weight of the newest speed alone against those before."""
LONGEST = 900.0
"""Seconds after which a pair that could not be measured counts as one that gains nothing."""
UNMEASURED = 1.0
CLASHED = 0.0
"""Gain of a pair of which one ran out of memory."""
GAIN_NEWS = 0.1
MOST_NAMES = 1000


class SoloGpuUsage(NamedTuple):
    """Use of a GPU by a job that had it alone."""

    utilisation: float
    memory: int


@dataclass(slots=True)
class _SpeedMeter:
    """The speed of one job."""

    life: tuple[object, ...] = ()
    """Its attempt and the job with which it shares: speeds of two lives are not mixed."""
    step: float = 0.0
    at: float = 0.0
    alone: float | None = None
    """Seconds of a step while it has its GPU for itself."""
    together: list[float] = field(default_factory=list)
    """The same in its present life beside another, since the last time that their gain was computed."""
    pair: tuple[JobId, int, int] | None = None
    """Job with which it shares its GPU, and the attempts of both."""
    paired_at: float = 0.0
    told: float | None = None
    """Gain of this pair as last shown to users."""


class Pairing:
    """All jobs that may share a GPU."""

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles
        self._meters: dict[JobId, _SpeedMeter] = {}
        self._uses: dict[JobId, SoloGpuUsage] = {}
        self._by_name: OrderedDict[str, SoloGpuUsage] = OrderedDict()
        """The last one of each fingerprint."""
        self._told: dict[JobId, Footprint] = {}

    # ---------------------------------------------------------------------------------------- recording

    def see(self, job: Job, tag: Tag) -> None:
        """Record the tag of a job, if it shows the job's use of a GPU of its own."""
        if job.phase is not Phase.RUNNING or tag.utilisation is None or tag.peak_memory is None:
            return
        if job.held < GPU:  # beside another its utilization is lower than alone, but its memory is its own
            if (before := self._uses.get(job.id)) is not None:
                self._uses[job.id] = before._replace(memory=max(before.memory, tag.peak_memory))
            return
        if tag.stage is TrainingStage.START_UP:
            return
        use = self._uses[job.id] = SoloGpuUsage(tag.utilisation, tag.peak_memory)
        name = self._profiles.fingerprint(job)
        self._by_name[name] = use
        self._by_name.move_to_end(name)
        if len(self._by_name) > MOST_NAMES:
            self._by_name.popitem(last=False)

    def hear(self, job: Job, other: Job | None, line: str, now: float) -> float | None:
        """Record a report of a running job that has its GPU alone, or shares it with another; return the gain
        of the pair, if that is news.
        """
        meter = self._meters.setdefault(job.id, _SpeedMeter())
        if job.held < GPU:
            return None if other is None else self._beside(meter, job, other, line, now)
        seconds = self._seconds(meter, (job.attempt,), line)
        if seconds is not None:
            before = meter.alone
            meter.alone = seconds if before is None else (1 - SMOOTHING) * before + SMOOTHING * seconds
        return None

    def _beside(self, meter: _SpeedMeter, job: Job, other: Job, line: str, now: float) -> float | None:
        pair = (other.id, other.attempt, job.attempt)
        if meter.pair != pair:
            meter.pair, meter.paired_at, meter.told = pair, now, None
        # Before its first step, the other job does not disturb it as it will later.
        steps = self._meters.get(other.id, _SpeedMeter()).life[:1] == (other.attempt,)
        seconds = self._seconds(meter, (job.attempt, other.id, other.attempt, steps), line)
        if seconds is not None:
            meter.together.append(seconds)
        gain = self._gain(job, other)
        if gain is None and meter.told is None and now - meter.paired_at > LONGEST:
            gain = UNMEASURED
        return None if gain is None else self._judged(job, other, gain, now)

    def clashed(self, job: Job, other: Job, now: float) -> None:
        """One of the two ran out of memory beside the other."""
        self._profiles.paired(job, other, CLASHED, now)

    def ended(self, job: JobId) -> None:
        for kept in (self._meters, self._uses, self._told):
            kept.pop(job, None)

    def _seconds(self, meter: _SpeedMeter, life: tuple[object, ...], line: str) -> float | None:
        """Return the seconds of a step since the last look, if that is long enough ago and its life is the
        same.
        """
        said = report_lines.read(line)
        step, at = dict(said.figures).get("step"), said.at
        if step is None or at is None:
            return None
        if life != meter.life or step < meter.step:
            meter.together.clear()
            meter.life, meter.step, meter.at = life, step, at
            return None
        if at - meter.at < SHORTEST_LOOK or step - meter.step < FEWEST_STEPS:
            return None
        seconds = (at - meter.at) / (step - meter.step)
        meter.step, meter.at = step, at
        return seconds

    def _gain(self, job: Job, other: Job) -> float | None:
        """Sum of both speeds relative to those alone; None while one of them is not known well enough."""
        speeds = []
        for one in (job, other):
            meter, alone = self._meters.get(one.id), self.alone(one)
            if meter is None or alone is None or len(meter.together) < LOOKS:
                return None
            speeds.append(alone / fmean(meter.together))
        return sum(speeds)

    def _judged(self, job: Job, other: Job, gain: float, now: float) -> float | None:
        self._profiles.paired(job, other, gain, now)
        meter, its = self._meters[job.id], self._meters.setdefault(other.id, _SpeedMeter())
        meter.together.clear()
        its.together.clear()
        if meter.told is not None and abs(meter.told - gain) <= GAIN_NEWS:
            return None
        meter.told = its.told = gain
        return gain

    # ------------------------------------------------------------------------------------------ reading

    def alone(self, job: Job) -> float | None:
        """Return the seconds of a step while it has a GPU for itself; without a measurement, those of its
        fingerprint.
        """
        meter = self._meters.get(job.id)
        if meter is not None and meter.alone is not None:
            return meter.alone
        profile = self._profiles.of(job)
        speeds = [one.step for one in profile.speeds if one.gpus == 1] if profile is not None else []
        return speeds[-1] if speeds else None

    def footprint(self, job: Job) -> Footprint | None:
        """Return the footprint for the scheduler; None while anything is missing."""
        profile = self._profiles.of(job)
        use = self._uses.get(job.id) or _kept(profile) or self._by_name.get(self._profiles.fingerprint(job))
        if use is None or self.alone(job) is None:
            return None
        gains = () if profile is None else tuple(sorted((one.other, one.gain) for one in profile.pairs))
        return Footprint(self._profiles.fingerprint(job), use.utilisation, use.memory, gains)

    def news(self, job: Job) -> Footprint | None:
        """Return its footprint, if it differs from the last published one by something that matters."""
        found, told = self.footprint(job), self._told.get(job.id)
        if found is None or (told is not None and not _differs(found, told)):
            return None
        self._told[job.id] = found
        return found


def _kept(profile: JobProfile | None) -> SoloGpuUsage | None:
    """Return the use of one whole GPU by earlier jobs of the fingerprint."""
    for use in profile.uses if profile is not None else ():
        if use.gpus == GPU and use.mean is not None and use.memory is not None:
            return SoloGpuUsage(use.mean, use.memory)
    return None


def _differs(one: Footprint, told: Footprint) -> bool:
    return (
        one.name != told.name
        or abs(one.utilisation - told.utilisation) > USE_NEWS
        or abs(one.memory - told.memory) > MEMORY_NEWS * told.memory
        or [name for name, _ in one.gains] != [name for name, _ in told.gains]
        or any(abs(gain - dict(told.gains)[name]) > GAIN_NEWS / 10 for name, gain in one.gains)
    )


def sentence(other: Job, gain: float) -> str:
    """Describe the measured gain for users."""
    return (
        f"shares its GPU with {other.spec.name} ({other.id}): together they were measured to do {gain:.2f} "
        "times the work that they would do in turns"
    )
