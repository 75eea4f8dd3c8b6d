"""What an examination of the record has found: what is wrong, with which thing, and what to do about it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it should be."""

    check: str
    """A word for machines: file, schema, log, phase, held, devices, results, …"""
    which: str
    """The job, event, queue, file or folder that it is about."""
    text: str
    fix: str
    grave: bool = True
    """Whether something is wrong; if not, it puts itself right and is told all the same."""
