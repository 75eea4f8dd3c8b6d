"""Plans: the device of each operator and the resulting step, or the reason why there is none."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Transfer:
    """The output of operator `producer` goes to device `target`."""

    producer: int
    target: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Plan:
    """One step, in full: `placement_check` needs nothing else to verify it."""

    placer: str
    device_of: tuple[int, ...]
    """Number of the device of each operator."""
    order: tuple[tuple[int, ...], ...]
    """Operators of each device in the order in which they run."""
    start: tuple[float, ...]
    end: tuple[float, ...]
    transfers: tuple[Transfer, ...]
    seconds: float
    """Seconds from the first start to the last end."""
    peaks: tuple[int, ...]
    """Most bytes in use at once, for each device."""
    bound: float = 0.0
    """No placement on these devices takes less."""


class Rhythm(StrEnum):
    """Pipeline schedule: the order in which a stage takes its turns."""

    GPIPE = "gpipe"
    """All forward, then all backward."""
    ONE_F_ONE_B = "1f1b"
    """As few forward turns as keep all stages busy, then
    backward and forward alternate: fewer are in flight.
    """


@dataclass(frozen=True, slots=True)
class Schedule:
    """A step of so many micro-batches."""

    rhythm: Rhythm
    micro_batches: int


@dataclass(frozen=True, slots=True)
class Turn:
    """A stage computes one pass of one micro-batch."""

    stage: int
    batch: int
    backward: bool
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Message:
    """Message of a turn's output to the next stage, or with a backward turn to the one before."""

    stage: int
    batch: int
    backward: bool
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Stages for the micro-batches of a step."""

    placer: str
    device_of: tuple[int, ...]
    loads: tuple[float, ...]
    """Seconds that each device is busy for a micro-batch: its operators, what it sends and receives."""
    peaks: tuple[int, ...]
    """Bytes of each device with as many micro-batches in flight as there are."""
    bound: float
    """No pipeline on these devices takes less."""
    stages: tuple[int, ...]
    """The devices in the order of the stages; those that have none are left out."""
    schedule: Schedule
    turns: tuple[Turn, ...]
    messages: tuple[Message, ...]
    seconds: float
    """Seconds of a step."""


@dataclass(frozen=True, slots=True)
class Infeasible:
    """No placement was found in which every device has enough memory."""

    blocking: str
    """The operator that has no place."""
    least: int
    """Bytes: with at least this on every device a placement is known."""
    proven: bool
    """No placement exists at all; otherwise none was found."""

    def __str__(self) -> str:
        what = "No split fits" if self.proven else "No split that fits was found"
        return (
            f"{what}: there is no room for operator {self.blocking}. "
            f"It would fit if every device had at least {self.least / 1e9:.3g} GB free."
        )
