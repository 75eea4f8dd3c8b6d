"""Count of the GPUs of a job that really work."""

from collections.abc import Sequence

from grus.patterns.activity_bursts import QUIET

AT_WORK = 0.1
"""Part of the busiest GPU's utilization above which another is at work too."""


def at_work(utilisations: Sequence[float]) -> int:
    """Count the GPUs of one job that really work: at least a tenth of the busiest one's utilization."""
    most = max(utilisations, default=0.0)
    return sum(one > max(QUIET, AT_WORK * most) for one in utilisations)
