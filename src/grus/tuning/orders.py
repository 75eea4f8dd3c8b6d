"""Orders of a search: its next changes to trials."""

from dataclasses import dataclass

from grus.model.sweep_search import Params


@dataclass(frozen=True, slots=True)
class Start:
    """Create this trial."""

    number: int
    params: Params


@dataclass(frozen=True, slots=True)
class Pause:
    """Pause a trial at its rung until it is promoted; its GPUs go to others."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class Resume:
    number: int
    why: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End a trial for good."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class ScaleTrial:
    """Let a trial hold `gpu` from now on, in the notation of `resources.gpu`; empty for the size in its
    template.
    """

    number: int
    gpu: str


@dataclass(frozen=True, slots=True)
class Finish:
    """End of the search; trials that still run are to be stopped."""

    why: str
    good: bool = True
    """False if no trial ever reported the metric: there is nothing to choose from."""


Order = Start | Pause | Resume | Stop | ScaleTrial | Finish
