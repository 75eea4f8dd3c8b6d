"""The phase of a job as its events tell it. Pure: whoever looks back at the log asks here."""

from grus.model.jobs import Phase

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
