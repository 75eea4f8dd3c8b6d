"""The profiler's record of one job: its facts, its reports, and the tag that follows from them."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from grus.model.activity_labels import Tag, TrainingStage, WorkloadKind
from grus.model.identifiers import DeviceId, WorkerId
from grus.model.jobs import JobType
from grus.patterns import hangs, training_phases
from grus.patterns.changepoints import level_since
from grus.patterns.hangs import Evidence, Hang, Steps
from grus.patterns.periods import Rhythm
from grus.patterns.stragglers import StragglerDetector
from grus.patterns.training_phases import TrainingSignals
from grus.patterns.workload_classifier import Classification, Traits, judge
from grus.telemetry.series_window import SubjectState

Floats = NDArray[np.float64]

LAPS = 60
"""Steps (or reports of steps) over which the pace is watched."""
SLOWED = 1.3
"""Times as long that is worth a word."""
TRAINING = {WorkloadKind.TRAINING, WorkloadKind.RETRAINING}
START = 120.0
"""Seconds of work without a step or a period after which a job has started up all the same."""
RESTING = (5.0, 3.0)
"""Seconds, and times the longest pause between two advances, after which steps rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """Facts about a job besides its telemetry."""

    type: JobType = JobType.TRAIN
    devices: frozenset[DeviceId] = frozenset()
    """The GPUs that it holds now: their power and activity count for it."""
    started_at: float | None = None
    kind: WorkloadKind | None = None
    """Kind of earlier runs of its fingerprint; None if there were none."""
    period: float | None = None
    """Seconds of their period."""
    new_data: bool = False
    """True if it runs on data with which its fingerprint was not seen."""


class Dossier:
    """One job. Bounded: some numbers for each worker that reports."""

    def __init__(self, facts: JobFacts | None = None) -> None:
        self.facts = facts or JobFacts()
        self._steps: dict[WorkerId | None, Steps] = {}
        self._race: StragglerDetector[WorkerId | None] = StragglerDetector()
        self._slow: dict[WorkerId | None, float] = {}
        """Stragglers, with how slow they were when that was first seen."""
        self._pace: deque[float] = deque(maxlen=LAPS)
        """Last seconds per step of the worker that reports first."""
        self._figures: dict[WorkerId | None, Mapping[str, float]] = {}
        """Last ones of each worker."""
        self._told_at = -math.inf
        """Time of its last new report."""
        self._hang: Hang | None = None
        self._begun = False

    def learn(self, facts: JobFacts) -> None:
        """Update the facts about it. On other GPUs it has another pace."""
        if facts.devices != self.facts.devices:
            self._pace.clear()
        self.facts = facts

    def hear(
        self,
        worker: WorkerId | None,
        figures: Mapping[str, float],
        at: float,
        saved_at: float | None = None,
    ) -> None:
        """Take in a report."""
        if self._figures.get(worker) != figures:
            self._figures[worker] = figures
            self._told_at = max(self._told_at, at)
        self._told_at = max(self._told_at, min(saved_at or -math.inf, at))
        step = figures.get("step")
        if step is None:
            return
        steps = self._steps.setdefault(worker, Steps())
        before = (steps.step, steps.advanced_at)
        if not steps.hear(step, at, figures.get("total")):
            return
        seconds = figures.get("step_seconds")
        if seconds is None and before[0] is not None and before[1] is not None and step > before[0] > 0:
            seconds = (at - before[1]) / (step - before[0])
        if seconds is not None and seconds > 0:
            if worker == next(iter(self._steps)):
                self._pace.append(seconds)
            self._race.lap(worker, seconds)
            self._slow = {one: self._slow.get(one, times) for one, times in self._race.stragglers.items()}

    def leave(self, worker: WorkerId) -> None:
        """The worker is gone."""
        self._steps.pop(worker, None)
        self._figures.pop(worker, None)
        self._race.leave(worker)
        self._slow.pop(worker, None)

    @property
    def stragglers(self) -> Mapping[WorkerId | None, float]:
        return self._slow

    @property
    def steps(self) -> Steps:
        """Those of the worker that got on last; if even that one stands still, all do."""
        return max(self._steps.values(), key=lambda one: one.advanced_at or 0.0, default=Steps())

    def suspect_since(self, now: float) -> float | None:
        """Return the start of a long rest of its steps: then it matters whether its activity stays
        periodic.
        """
        steps = self.steps
        return steps.advanced_at if steps.advanced_at is not None and not steps.advances(now) else None

    def tag(self, views: Sequence[SubjectState], now: float, *, beating: bool = True) -> Tag:
        """Return the tag recognized now, from its GPUs' and workers' views.

        `beating`: whether their period continues since its steps rest.
        """
        together = merged(views)
        steps, look = self.steps, together.traits
        self._hang = self._hanging(together, beating, now)
        # Only a job that has trained can hang.
        stepping = steps.advances(now) or self._hang is not None
        found = judge(
            look,
            type=self.facts.type,
            stepping=stepping,
            before=self.facts.kind,
            new_data=self.facts.new_data,
        )
        if not views and not stepping:
            found = Classification(WorkloadKind.UNKNOWN, 0.0, "no telemetry of it")
        self._begun |= (steps.step or 0) > 0 and stepping
        self._begun |= look.rhythm is not None or look.at_work_for > START
        tag = plain(found, together, now)
        if self._hang is not None:
            tag = replace(tag, period=None, boundary=None)
        return replace(
            tag,
            peak_memory=peak_memory(views, len(self.facts.devices)),
            confidence=found.confidence if self._hang is None else self._hang.confidence,
            stage=self._stage(found, together, now),
            hung_since=None if self._hang is None else self._hang.since,
            note=self._note(found),
        )

    def _hanging(self, view: SubjectState, beating: bool, now: float) -> Hang | None:
        steps, look = self.steps, view.traits
        had = look.rhythm or view.had
        seen = Evidence(
            measured=view is not NOTHING,
            quiet_for=look.quiet_for,
            flat_for=view.flat_for,
            power_low=view.power_low,
            period=had.period if had is not None else self.facts.period,
            own=view.had is not None,
            beating=beating and look.rhythm is not None,
            told_for=max(0.0, now - self._told_at),
            writing=(view.writes or 0.0) >= training_phases.WRITING,
            on_demand=self.facts.type in (JobType.DEV, JobType.SERVE),
        )
        found = hangs.hang(steps, seen, now)
        if found is not None:
            # The first estimate of its start is the best one: the windows forget older data.
            return replace(found, since=min(found.since, self._hang.since)) if self._hang else found
        return self._hang if self._hang is not None and self._still_hangs(self._hang, view) else None

    def _still_hangs(self, hang: Hang, view: SubjectState) -> bool:
        """Return whether a reported hang is not refuted, though the evidence may have faded."""
        advanced = self.steps.advanced_at
        if self.steps.done or (advanced is not None and advanced > hang.since):
            return False
        if advanced is not None:
            return True
        if self._told_at > hang.since:
            return False
        return view.traits.quiet_for > 0 or view.steady

    def _stage(self, found: Classification, view: SubjectState, now: float) -> TrainingStage:
        if found.kind not in TRAINING:
            young = found.kind is WorkloadKind.UNKNOWN and not self._begun
            return TrainingStage.START_UP if young else TrainingStage.UNKNOWN
        if self._hang is not None:
            return TrainingStage.UNKNOWN
        steps = self.steps
        patience = max(RESTING[0], RESTING[1] * steps.longest_pause)
        return training_phases.stage(
            TrainingSignals(
                begun=self._begun,
                period=None if view.traits.rhythm is None else view.traits.rhythm.period,
                now=view.now,
                usual=view.usual,
                levels=view.levels,
                writes=view.writes,
                steps_rest=steps.known and steps.still_for(now) > patience,
            )
        )

    def _note(self, found: Classification) -> str:
        said = [found.sentence if self._hang is None else f"hangs: {self._hang.sentence}"]
        said += [
            f"worker {worker} is a straggler: its steps took {times:.1f} times the others' time"
            for worker, times in sorted(self._slow.items(), key=lambda item: str(item[0]))
        ]
        if (slower := slowed(np.array(self._pace))) is not None:
            said.append(f"its steps take {slower:.1f} times as long as before")
        return "; ".join(said)


def slowed(pace: Floats) -> float | None:
    """Return the factor by which the last steps took longer than those before, if it is large and lasts; else
    None.
    """
    since = level_since(pace)
    if not since:
        return None
    times = float(np.median(pace[since:]) / np.median(pace[:since]))
    return times if times >= SLOWED else None


def plain(found: Classification, view: SubjectState, now: float) -> Tag:
    """Return the tag of a subject that is classified by its telemetry alone."""
    rhythm = view.traits.rhythm
    return Tag(
        kind=found.kind,
        at=now - view.traits.quiet_for if found.kind is WorkloadKind.IDLE else now,
        expires=now,
        confidence=found.confidence,
        period=None if rhythm is None else rhythm.period,
        boundary=None if rhythm is None else rhythm.boundary,
        utilisation=view.utilisation,
        peak_memory=view.peak_memory,
        note=found.sentence,
    )


NOTHING = SubjectState(
    device=False,
    traits=Traits(),
    utilisation=None,
    peak_memory=None,
    flat_for=0.0,
    steady=False,
    power_low=None,
    had=None,
    now=0.0,
    usual=0.0,
    levels=None,
    writes=None,
)


def peak_memory(views: Sequence[SubjectState], devices: int) -> int | None:
    """Most bytes on one GPU.

    A worker's own count where each has one GPU, for on a GPU there may be others'; else those of the GPUs.
    """
    workers = [one.peak_memory for one in views if not one.device and one.peak_memory is not None]
    gpus = [one.peak_memory for one in views if one.device and one.peak_memory is not None]
    return max(workers if len(workers) >= devices else gpus or workers, default=None)


def merged(views: Sequence[SubjectState]) -> SubjectState:
    """Merge a job's subjects into one: quiet only if all are; its period is the clearest one."""
    if not views:
        return NOTHING
    lead = max(views, key=_clarity)
    look = replace(
        lead.traits,
        quiet_for=min(one.traits.quiet_for for one in views),
        at_work_for=max(one.traits.at_work_for for one in views),
    )
    powers = [one.power_low for one in views if one.power_low is not None]
    used = [one.utilisation for one in views if one.utilisation is not None]
    written = [one.writes for one in views if one.writes is not None]
    return replace(
        lead,
        traits=look,
        utilisation=sum(used) / len(used) if used else None,
        flat_for=min(one.flat_for for one in views),
        steady=all(one.steady for one in views),
        power_low=any(powers) if powers else None,
        had=lead.had or _clearest([one.had for one in views]),
        writes=sum(written) if written else None,
    )


def _clarity(view: SubjectState) -> tuple[float, float]:
    beat = view.traits.rhythm
    return (beat.confidence if beat is not None else 0.0, view.traits.mean)


def _clearest(rhythms: Sequence[Rhythm | None]) -> Rhythm | None:
    return max((one for one in rhythms if one is not None), key=lambda one: one.confidence, default=None)
