"""Which requests are served when, and in a word why one was not."""

from enum import IntEnum


class Stage(IntEnum):
    """Which requests are served at a time."""

    INSIDE = 1
    """Inside the quota of their own queue."""
    BRANCH = 2
    """Inside the quota of a branch above it."""
    FAIR = 3
    """Over quota, but within fair share."""
    OVER = 4


OVER_QUOTA = "over quota"
OVER_SHARE = "over fair share"
LATER = (OVER_QUOTA, OVER_SHARE)
"""Not yet: a later stage serves these."""
BEHIND_GANG = "behind a gang"
BEHIND_PREEMPTOR = "behind the job that it made room for"
NO_FREE = "no free GPUs"
SCATTERED = "scattered"
UNLIKE = "different types"
LACKS_GPUS = (NO_FREE, SCATTERED, UNLIKE)
"""Held back for a gang that a rule keeps out, GPUs would only lie idle."""
NEVER_QUOTA = "never-preempted quota"
