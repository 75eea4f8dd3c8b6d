"""Tags: the activity recognized from telemetry, for a job, a worker, or a GPU.

A tag is a value with the moment from which it is valid and the moment at which it expires. It is reported
again only when it has changed; an expired one has no meaning. `unknown` is a valid answer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from grus.model.identifiers import DeviceId, JobId


class WorkloadKind(StrEnum):
    """Kind of use of a GPU."""

    IDLE = "idle"
    """Held, and nothing happens."""
    DEV = "dev"
    """Experiments by a person: bursts between pauses."""
    TRAINING = "training"
    RETRAINING = "retraining"
    """Training of a known fingerprint on data that it was not seen with."""
    INFERENCE = "inference"
    UNKNOWN = "unknown"


class TrainingStage(StrEnum):
    """Stage of a training's life."""

    UNKNOWN = ""
    START_UP = "start-up"
    TRAINING = "training"
    EVALUATION = "evaluation"
    CHECKPOINT = "checkpoint"
    """The training stands still while it saves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    kind: WorkloadKind
    at: float
    """Since when it is so."""
    expires: float
    """Time after which it is no longer valid unless it was reported again."""
    confidence: float = 0.0
    """0 to 1, of the kind and, where there is one, the period."""
    period: float | None = None
    """Seconds of one epoch (or another repeating section); None if no period was recognized."""
    boundary: float | None = None
    """A moment at which a period began; the others follow from it."""
    stage: TrainingStage = TrainingStage.UNKNOWN
    hung_since: float | None = None
    """Since when it makes no progress though it holds its GPUs; None while it does."""
    utilisation: float | None = None
    """Mean of the last minutes, 0 to 1 of what it holds."""
    peak_memory: int | None = None
    """Most bytes of memory that it had on one GPU."""
    note: str = ""
    """One sentence for people: what the tag rests on, or what is wrong (a straggler, a lost source)."""

    def live(self, now: float) -> bool:
        return now < self.expires

    def next_boundary(self, now: float) -> float | None:
        """Return when its next period begins; None without a period."""
        if self.period is None or self.boundary is None or self.period <= 0:
            return None
        return self.boundary + math.ceil((now - self.boundary) / self.period) * self.period


def of_job(job: JobId) -> str:
    """The key of a job's tag."""
    return f"job/{job}"


def of_gpu(device: DeviceId) -> str:
    """The key of a GPU's tag."""
    return f"gpu/{device}"


def together(tags: Sequence[Tag]) -> Tag:
    """One tag for a job out of those of its workers: the surest of them, and what is true of all.

    It hangs as soon as one of them does, since the others wait for that one.
    """
    surest = max(tags, key=lambda tag: (tag.kind is not WorkloadKind.UNKNOWN, tag.confidence, -tag.at))
    hung = [tag.hung_since for tag in tags if tag.hung_since is not None]
    use = [tag.utilisation for tag in tags if tag.utilisation is not None]
    memory = [tag.peak_memory for tag in tags if tag.peak_memory is not None]
    return replace(
        surest,
        expires=min(tag.expires for tag in tags),
        hung_since=min(hung, default=None),
        utilisation=sum(use) / len(use) if use else None,
        peak_memory=max(memory, default=None),
    )
