"""What a search wants done next."""

from dataclasses import dataclass

from grus.model.sweeps import Params


@dataclass(frozen=True, slots=True)
class Start:
    """Make this trial."""

    number: int
    params: Params


@dataclass(frozen=True, slots=True)
class Pause:
    """It waits at its rung until it is promoted; its GPUs go to others."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class Resume:
    number: int
    why: str


@dataclass(frozen=True, slots=True)
class Stop:
    """It is ended for good."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class Scale:
    """From now on it may hold `gpu`, written as `resources.gpu` is; empty for what its template says."""

    number: int
    gpu: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The search is over; trials that still run are to be stopped."""

    why: str
    good: bool = True
    """False where no trial ever gave a figure: there is nothing to choose from."""


Order = Start | Pause | Resume | Stop | Scale | Finish
