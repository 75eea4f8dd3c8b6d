"""Phases of a job, their transitions, and the events that report them.

Light, because the command line uses this before it knows which other modules it needs.
"""

from enum import StrEnum


class Phase(StrEnum):
    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


TERMINAL = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED})
HOLDING = frozenset({Phase.STARTING, Phase.RUNNING, Phase.PAUSING})
"""Phases in which a job may hold GPUs."""

NEXT: dict[Phase, frozenset[Phase]] = {
    Phase.PENDING: frozenset({Phase.STARTING, Phase.PAUSED, *TERMINAL}),
    Phase.STARTING: frozenset({Phase.RUNNING, Phase.PENDING, Phase.PAUSING, *TERMINAL}),
    Phase.RUNNING: frozenset({Phase.PENDING, Phase.PAUSING, *TERMINAL}),
    Phase.PAUSING: frozenset({Phase.PAUSED, *TERMINAL}),
    Phase.PAUSED: frozenset({Phase.STARTING, Phase.PENDING, Phase.STOPPED, Phase.FAILED}),
    Phase.SUCCEEDED: frozenset(),
    Phase.FAILED: frozenset(),
    Phase.STOPPED: frozenset(),
}
"""The legal changes of phase; staying is always legal. Back to pending is a retry or a lost node. A stage of
which nothing has changed succeeds without a start."""

BEGINS = {
    "submitted": Phase.PENDING,
    "starting": Phase.STARTING,
    "running": Phase.RUNNING,
    "pausing": Phase.PAUSING,
    "paused": Phase.PAUSED,
    "resumed": Phase.PENDING,
    "requeued": Phase.PENDING,
    "retrying": Phase.PENDING,
    "enlarged": Phase.PENDING,
    "succeeded": Phase.SUCCEEDED,
    "failed": Phase.FAILED,
    "stopped": Phase.STOPPED,
}
"""The phase that a kind of event begins; others change none."""


def phase_after(kind: str, before: Phase | None) -> Phase | None:
    """The phase after an event of this kind; None while that cannot be known."""
    if kind == "resumed" and before in (Phase.PAUSING, None):
        return before  # one that is pausing ends this attempt first
    return BEGINS.get(kind, before)
