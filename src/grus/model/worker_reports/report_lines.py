"""Worker reports: a line of JSON that a worker writes about itself. Pure; a line is a claim of the job and
may be anything.

    {"at": 1763248440.5, "figures": {"step": 120, "total": 5000, "loss": 0.31}, "saved_at": 1763248431.0}

Decisions use `saved_at` (the work that would be lost if the job were preempted) and, for elastic jobs, the
speed that `learning` derives from `step`, `total` and `batch`. A worker in a worker group also reports its
address for the others, the number of its group, and since when it waits for the others, if that is too long:

    {"at": …, "elastic": {"address": "127.0.0.1:4711", "team": 3, "step": 120, "waits": 1763248431.0}}

A worker that answers requests reports its address and the secret that requests must carry; a session also
reports when it was last used:

    {"at": …, "endpoint": {"address": "127.0.0.1:4711", "secret": "…", "used_at": 1763248431.0}}
"""

import json
import math
import re
from functools import lru_cache
from typing import NamedTuple

MOST_LINES = 512
"""Lines remembered at a time: several readers need the same line, and it stays the same for a while."""
MOST_FIGURES = 32
LONGEST_NAME = 64
LONGEST_ADDRESS = 255
SECRET = re.compile("[A-Za-z0-9_-]{16,128}")
"""Pattern of secrets: letters that a header and an address accept as they are."""
USUAL_PATIENCE = 30.0
"""Seconds after which a worker reports a wait, if it does not set a limit."""


class Word(NamedTuple):
    """Report of a worker about its worker group."""

    address: str = ""
    """Address at which other workers can join it; empty while it is not ready."""
    team: int = 0
    """Number of the worker group that it is in, or tries to form."""
    waits: float | None = None
    """Time since which it waits for the others; only if that is too long."""
    patience: float = USUAL_PATIENCE
    """Seconds that count as too long (`hang_after`)."""
    new: bool = False
    """True if it has not completed a step yet: it may have to wait for the end of a long one."""
    step: float | None = None
    """Present step of this worker."""
    lap: float | None = None
    """Seconds that this worker needs for its own part of a step, without waiting for the others."""


class WorkerEndpoint(NamedTuple):
    """Endpoint at which a worker answers requests."""

    address: str
    """Host and port."""
    secret: str
    """Secret that a request must carry to be answered. Never shown, never stored."""
    used_at: float | None = None
    """Time of the last use by a person, as the worker sees it."""


class WorkerReport(NamedTuple):
    """Parsed line, as far as it is valid."""

    at: float | None
    figures: tuple[tuple[str, float], ...]
    saved_at: float | None
    word: Word = Word()
    place: WorkerEndpoint | None = None
    diverged: tuple[str, ...] = ()
    """Names of metrics that are NaN or infinite; they have no value."""


@lru_cache(MOST_LINES)
def read(line: str) -> WorkerReport:
    said = parsed(line)
    return WorkerReport(
        _number(said.get("at")),
        tuple(_figures(said.get("figures"))[:MOST_FIGURES]),
        _number(said.get("saved_at")),
        _word(said.get("elastic")),
        _place(said.get("endpoint")),
        tuple(_diverged(said.get("figures"))[:MOST_FIGURES]),
    )


def progress(said: WorkerReport) -> dict[str, float]:
    """Return its metrics; for a member of a worker group also this worker's own step and speed."""
    figures = dict(said.figures)
    if said.word.step is not None and said.word.lap is not None:
        figures |= {"step": max(said.word.step, figures.get("step", 0.0)), "step_seconds": said.word.lap}
    return figures


def parsed(line: str) -> dict[str, object]:
    """Return the JSON object of a line; empty if it is none."""
    try:
        found = json.loads(line) if line else None
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _word(said: object) -> Word:
    if not isinstance(said, dict):
        return Word()
    address, team, patience = said.get("address"), _number(said.get("team")), _number(said.get("hang_after"))
    return Word(
        address=address if isinstance(address, str) and _is_address(address) else "",
        team=int(team) if team is not None and team > 0 else 0,
        waits=_number(said.get("waits")),
        patience=patience if patience is not None and patience > 0 else USUAL_PATIENCE,
        new=_number(said.get("step")) == 0,
        step=_number(said.get("step")),
        lap=_number(said.get("lap")),
    )


def _place(said: object) -> WorkerEndpoint | None:
    if not isinstance(said, dict):
        return None
    address, secret = said.get("address"), said.get("secret")
    if not isinstance(address, str) or not _is_address(address):
        return None
    if not isinstance(secret, str) or not SECRET.fullmatch(secret):
        return None
    return WorkerEndpoint(address, secret, _number(said.get("used_at")))


def _is_address(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    return bool(host and colon) and port.isdecimal() and text.isascii() and len(text) <= LONGEST_ADDRESS


def _figures(said: object) -> list[tuple[str, float]]:
    if not isinstance(said, dict):
        return []
    numbers = ((name, _number(value)) for name, value in said.items() if _is_name(name))
    return [(name, number) for name, number in numbers if number is not None]


def _diverged(said: object) -> list[str]:
    """Return the names of non-finite metrics. JSON has no word for these numbers; Python writes and reads
    NaN, Infinity and -Infinity.
    """
    if not isinstance(said, dict):
        return []
    return [
        name
        for name, value in said.items()
        if _is_name(name) and isinstance(value, float) and not math.isfinite(value)
    ]


def _is_name(name: str) -> bool:
    return 0 < len(name) <= LONGEST_NAME and name.isprintable()


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
