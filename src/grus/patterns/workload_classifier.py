"""Classify the use of a GPU by its telemetry: idle, dev, training, inference, or unknown.

The evidence, strongest first: steps that a job reports; a period (training repeats itself, people and
requests do not); the kinds of earlier runs of the same fingerprint; the sequence of bursts and pauses, and
whether memory stays allocated between them. Without any of these, the answer is unknown and not a guess.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grus.model.activity_labels import WorkloadKind
from grus.model.jobs import JobType
from grus.patterns.activity_bursts import Activity
from grus.patterns.periods import Rhythm

Floats = NDArray[np.float64]

IDLE_AFTER = 30.0
"""Seconds of quiet that make idle, where nothing longer is usual."""
LONGEST_USUAL = 120.0
"""Seconds; a longer pause is idleness however often it comes."""
SURE = 0.5
"""Confidence from which a period counts."""
THINKING = 8.0
"""Seconds; people pause at least so long between what they try, requests hardly ever do."""
FEWEST_PAUSES = 3
SERVING_AFTER = 90.0
"""Seconds of work before it can be called inference."""
SERVING_MOST = 0.7
"""Mean utilization; a server of requests keeps spare capacity for the next ones."""
UNEVEN = 0.25
"""Against the mean, how much activity that follows requests jumps from one second to the next."""
RESIDENT = 0.9
"""Part of its peak memory that a server keeps all the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Traits of the last minutes of a subject (or of a job's subjects together)."""

    quiet_for: float = 0.0
    """Seconds."""
    at_work_for: float = 0.0
    """Seconds since it first did something."""
    pauses: int = 0
    usual_pause: float = 0.0
    longest_pause: float = 0.0
    mean: float = 0.0
    """Activity over the window, 0 to 1."""
    uneven: float = 0.0
    """Spread of its jumps from one value to the next, relative to its mean."""
    resident: float | None = None
    """Least against most memory over the window; None where memory is not measured, or was never taken."""
    rhythm: Rhythm | None = None
    measure: str = ""
    """The measure that shows the period."""


@dataclass(frozen=True, slots=True)
class Classification:
    kind: WorkloadKind
    confidence: float
    sentence: str


def traits(
    activity: Activity,
    values: Floats,
    memory: Floats | None = None,
    rhythm: Rhythm | None = None,
    measure: str = "",
) -> Traits:
    """Compute the traits from a subject's windows, evenly sampled; NaN is a gap."""
    known = values[np.isfinite(values)]
    mean = float(known.mean()) if len(known) else 0.0
    return Traits(
        quiet_for=activity.quiet_for,
        at_work_for=activity.at_work_for,
        pauses=activity.pauses,
        usual_pause=activity.usual_pause,
        longest_pause=activity.longest_pause,
        mean=mean,
        uneven=_jumps(known) / mean if mean > 0 else 0.0,
        resident=None if memory is None else _resident(memory),
        rhythm=rhythm,
        measure=measure,
    )


def judge(
    look: Traits,
    *,
    type: JobType = JobType.TRAIN,
    stepping: bool = False,
    before: WorkloadKind | None = None,
    new_data: bool = False,
) -> Classification:
    """The kind, how sure that is, and what it rests on.

    `stepping`: it reports steps, and they advance. `before`: what earlier runs of its fingerprint were.
    """
    found = _judge(look, type, stepping, before)
    known = before in {WorkloadKind.TRAINING, WorkloadKind.RETRAINING}
    if found.kind is WorkloadKind.TRAINING and known and new_data:
        return Classification(
            WorkloadKind.RETRAINING, found.confidence, f"{found.sentence}; known work on new data"
        )
    return found


def idle_after(look: Traits) -> float:
    """Seconds of quiet after which it is idle, and not merely between two epochs or two thoughts."""
    usual = min(2 * look.longest_pause, LONGEST_USUAL)
    period = 2 * look.rhythm.period if look.rhythm is not None else 0.0
    return max(IDLE_AFTER, usual, period)


def _judge(look: Traits, type_: JobType, stepping: bool, before: WorkloadKind | None) -> Classification:
    beats = look.rhythm if look.rhythm is not None and look.rhythm.confidence >= SURE else None
    if stepping:
        sure = 0.95 if beats is None else max(0.95, beats.confidence)
        return Classification(WorkloadKind.TRAINING, sure, "it reports steps" + _beat(look, " and has "))
    if look.quiet_for >= idle_after(look):
        return Classification(WorkloadKind.IDLE, 0.9, "held, and nothing happens")
    if type_ is JobType.SERVE:
        return Classification(WorkloadKind.INFERENCE, 0.95, "it answers requests")
    if beats is not None:
        return Classification(WorkloadKind.TRAINING, beats.confidence, "it has" + _beat(look, " "))
    if look.at_work_for == 0:
        return Classification(WorkloadKind.UNKNOWN, 0.0, "nothing has happened yet")
    if type_ is JobType.DEV:
        return Classification(WorkloadKind.DEV, 0.8, "a dev job, without a rhythm")
    if before is not None and before not in {WorkloadKind.UNKNOWN, WorkloadKind.IDLE}:
        kind = WorkloadKind.TRAINING if before is WorkloadKind.RETRAINING else before
        return Classification(kind, 0.6, "earlier runs of it were")
    if look.pauses >= FEWEST_PAUSES and look.usual_pause >= THINKING:
        return Classification(WorkloadKind.DEV, 0.6, "bursts between long pauses, without a rhythm")
    if _serves(look):
        return Classification(
            WorkloadKind.INFERENCE, 0.6, "load that comes and goes on memory that stays taken"
        )
    return Classification(WorkloadKind.UNKNOWN, 0.0, "busy, without a rhythm so far")


def _serves(look: Traits) -> bool:
    kept = look.resident is not None and look.resident >= RESIDENT
    room = 0 < look.mean <= SERVING_MOST
    return kept and room and look.uneven >= UNEVEN and look.at_work_for >= SERVING_AFTER


def _beat(look: Traits, lead: str) -> str:
    if look.rhythm is None or look.rhythm.confidence < SURE:
        return ""
    return f"{lead}a rhythm" + (f" in its {look.measure}" if look.measure else "")


def _jumps(known: Floats) -> float:
    """Size of the part of it that has no memory: for pure noise its spread, for a drift much less."""
    return float(np.diff(known).std()) / math.sqrt(2) if len(known) > 2 else 0.0


def _resident(memory: Floats) -> float | None:
    known = memory[np.isfinite(memory)]
    most = float(known.max()) if len(known) else 0.0
    return float(known.min()) / most if most > 0 else None
