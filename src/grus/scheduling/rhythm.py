"""What a decision makes of a job's tag: when its next period begins, and what a change of the tag matters.

A tag reaches the snapshot only when it differs by something that a decision looks at (`is_news`), and says
nothing once it has expired. Pure functions of values.
"""

from grus.model.tags import Tag

PERIOD_NEWS = 0.1
"""Part of a period by which its length, or the moment of its next beginning, must differ to be told again."""
MEMORY_NEWS = 0.05
"""Part of the memory that was told by which the peak must differ."""
USE_NEWS = 0.1
"""By how much utilisation (0 to 1) must differ."""
LASTING = 1e12
"""`expires` of a tag in the snapshot: whoever told it takes it back, since time alone tells nobody."""


def is_news(told: Tag | None, tag: Tag | None, now: float) -> bool:
    """Whether a tag differs from the one that was told before by something that decisions look at."""
    if told is None or tag is None:
        return told is not tag
    if (told.kind, told.hung_since is None) != (tag.kind, tag.hung_since is None):
        return True
    return _other_rhythm(told, tag, now) or _other_needs(told, tag)


def _other_rhythm(told: Tag, tag: Tag, now: float) -> bool:
    before, after = told.next_boundary(now), tag.next_boundary(now)
    if before is None or after is None:
        return before is not after
    assert told.period is not None, "a boundary is one of a period"
    assert tag.period is not None, "a boundary is one of a period"
    apart = abs(after - before) % tag.period
    apart = min(apart, tag.period - apart)
    return max(apart, abs(tag.period - told.period)) > PERIOD_NEWS * told.period


def _other_needs(told: Tag, tag: Tag) -> bool:
    if _known(told) != _known(tag):
        return True
    memory = abs((tag.peak_memory or 0) - (told.peak_memory or 0))
    use = abs((tag.utilisation or 0.0) - (told.utilisation or 0.0))
    return memory > MEMORY_NEWS * (told.peak_memory or 0) or use > USE_NEWS


def _known(tag: Tag) -> tuple[bool, bool]:
    return (tag.peak_memory is None, tag.utilisation is None)
