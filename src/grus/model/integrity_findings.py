"""Findings of a check of the records: the problem, the object concerned, and the fix."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem found."""

    check: str
    """Code for machines: file, schema, log, phase, held, devices, results, …"""
    which: str
    """The job, event, queue, file or folder that it is about."""
    text: str
    fix: str
    grave: bool = True
    """True if something is wrong; if false, it corrects itself and is reported all the same."""
