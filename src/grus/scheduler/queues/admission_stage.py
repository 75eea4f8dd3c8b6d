"""Scheduling stages: the order in which requests are served, and the short reasons for a failure."""

from enum import IntEnum


class AllocationStage(IntEnum):
    """Requests that are served at the same time."""

    INSIDE = 1
    """Requests inside the quota of their own queue."""
    BRANCH = 2
    """Requests inside the quota of a branch above it."""
    FAIR = 3
    """Requests over quota, but within fair share."""
    OVER = 4


OVER_QUOTA = "over quota"
OVER_SHARE = "over fair share"
LATER = (OVER_QUOTA, OVER_SHARE)
"""Reasons to try again in a later stage."""
BEHIND_GANG = "behind a gang"
BEHIND_PREEMPTOR = "behind the job that it made room for"
NO_FREE = "no free GPUs"
SCATTERED = "scattered"
UNLIKE = "different types"
LACKS_GPUS = (NO_FREE, SCATTERED, UNLIKE)
"""Held back for a gang that a rule keeps out, GPUs would only lie idle."""
NEVER_QUOTA = "never-preempted quota"
