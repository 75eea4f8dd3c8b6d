"""Stable tags: a reported tag stays until there is a real change.

Another kind or stage counts only when it has lasted for a few seconds; figures count when they have moved by
more than their noise. Otherwise the reported tag stays as it is, to the last bit, so that a writer of tags
writes on change only.
"""

import math
from dataclasses import replace

from grus.model.activity_labels import Tag, TrainingStage, WorkloadKind

LASTS = 2.0
"""Seconds for which another kind or stage must be seen before it is reported."""
PERIOD = 0.05
BOUNDARY = 0.15
"""Part of a period by which a period, or the moment at which one begins, must be off."""
CONFIDENCE = 0.15
COARSE = 1.5
"""Seconds by which such a moment must be off at least: samples come once a second."""
UTILISATION = 0.1
MEMORY = 0.05
"""Part by which memory must have grown."""
FIGURES = 15.0
"""Seconds between two changes of figures alone."""


class StableTag:
    """The last reported tag of one subject or job."""

    def __init__(self, life: float) -> None:
        self._life = life
        self.told: Tag | None = None
        self._other: tuple[WorkloadKind, TrainingStage, bool] | None = None
        self._since = 0.0
        self._told_at = 0.0

    def offer(self, fresh: Tag, now: float, *, firm: bool = False) -> Tag:
        """Take the tag recognized now; return the reported one. `expires` of the fresh tag does not matter.

        A tag that is `firm` has settled before, and another kind of it is reported at once.
        """
        fresh = replace(fresh, expires=now + self._life)
        told = self.told
        turned = told is not None and self._turned(told, fresh, now)
        if told is None or turned or (firm and _state(told) != _state(fresh)):
            self.told, self._told_at = fresh, now
        elif _state(told) != _state(fresh):
            self.told = self._renewed(told, now)
        elif says_more(told, fresh) or (now - self._told_at >= FIGURES and differs(told, fresh)):
            self.told, self._told_at = replace(fresh, at=told.at, hung_since=told.hung_since), now
        else:
            self.told = self._renewed(told, now)
        return self.told

    def _turned(self, told: Tag, fresh: Tag, now: float) -> bool:
        """Return whether it is another kind, stage or state now, and has been for long enough."""
        state = _state(fresh)
        if state == _state(told):
            self._other = None
            return False
        if state != self._other:
            self._other, self._since = state, now
        # The first known kind may be reported at once.
        if told.kind is WorkloadKind.UNKNOWN or now - self._since >= LASTS:
            self._other = None
            return True
        return False

    def _renewed(self, told: Tag, now: float) -> Tag:
        left = told.expires - now
        return replace(told, expires=now + self._life) if left < self._life / 2 else told


def _state(tag: Tag) -> tuple[WorkloadKind, TrainingStage, bool]:
    return tag.kind, tag.stage, tag.hung_since is not None


def says_more(told: Tag, fresh: Tag) -> bool:
    """Return whether one has words or a period that the other has not."""
    return told.note != fresh.note or (told.period is None) != (fresh.period is None)


def differs(told: Tag, fresh: Tag) -> bool:
    """Return whether the figures of two tags of one state are far enough apart to be reported again."""
    return (
        abs(told.confidence - fresh.confidence) >= CONFIDENCE
        or _rhythm_differs(told, fresh)
        or _moved(told.utilisation, fresh.utilisation, UTILISATION)
        or _moved(told.peak_memory, fresh.peak_memory, MEMORY * (told.peak_memory or 0))
    )


def _rhythm_differs(told: Tag, fresh: Tag) -> bool:
    if told.period is None or fresh.period is None:
        return told.period is not fresh.period
    if abs(fresh.period / told.period - 1) > PERIOD:
        return True
    if told.boundary is None or fresh.boundary is None:
        return told.boundary is not fresh.boundary
    off = (fresh.boundary - told.boundary) / told.period
    return abs(off - math.floor(off + 0.5)) * told.period > max(COARSE, BOUNDARY * told.period)


def _moved(told: float | None, fresh: float | None, by: float) -> bool:
    if told is None or fresh is None:
        return told is not fresh
    return abs(fresh - told) > by
