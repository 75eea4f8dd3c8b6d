"""What workers report of themselves, a line of JSON. Pure; a line is a job's word and may be anything.

    {"at": 1763248440.5, "figures": {"step": 120, "total": 5000, "loss": 0.31}, "saved_at": 1763248431.0}

Decisions use `saved_at` (what would be lost if the job had to make room) and, for elastic jobs, the speed
that `learning` reads out of `step`, `total` and `batch`. A worker that computes in a team also says where the
others reach it, in which team it is, and since when it waits for the others, if that is too long:

    {"at": …, "elastic": {"address": "127.0.0.1:4711", "team": 3, "step": 120, "waits": 1763248431.0}}

One that answers requests says where, and what they must bring; and a session, when people last used it:

    {"at": …, "endpoint": {"address": "127.0.0.1:4711", "secret": "…", "used_at": 1763248431.0}}
"""

import json
import math
import re
from functools import lru_cache
from typing import NamedTuple

MOST_LINES = 512
"""Remembered at a time: several ask what one line says, and it stays the same for a while."""
MOST_FIGURES = 32
LONGEST_NAME = 64
LONGEST_ADDRESS = 255
SECRET = re.compile("[A-Za-z0-9_-]{16,128}")
"""Letters that a header and an address take as they are."""
USUAL_PATIENCE = 30.0
"""Seconds after which a worker complains, where it does not say."""


class Word(NamedTuple):
    """What a worker says to its team."""

    address: str = ""
    """Where it can be joined; empty while it is not ready."""
    team: int = 0
    """The team that it is in, or tries to form."""
    waits: float | None = None
    """Since when it waits for the others; only if that is too long."""
    patience: float = USUAL_PATIENCE
    """Seconds that count as too long (`hang_after`)."""
    new: bool = False
    """Whether it has not done a step yet: it may have to wait for the end of one that lasts."""
    step: float | None = None
    """How far it is, …"""
    lap: float | None = None
    """… and the seconds that it needs for its own part of a step, without waiting for the others."""


class Place(NamedTuple):
    """Where a worker answers requests."""

    address: str
    """Host and port."""
    secret: str
    """What a request must bring to be answered. Never shown, never stored."""
    used_at: float | None = None
    """When it was last at work for somebody, as it sees it."""


class Report(NamedTuple):
    """One line, as far as it makes sense."""

    at: float | None
    figures: tuple[tuple[str, float], ...]
    saved_at: float | None
    word: Word = Word()
    place: Place | None = None
    diverged: tuple[str, ...] = ()
    """Names of figures that are NaN or infinite; they have no value."""


@lru_cache(MOST_LINES)
def read(line: str) -> Report:
    said = _object(line)
    return Report(
        _number(said.get("at")),
        tuple(_figures(said.get("figures"))[:MOST_FIGURES]),
        _number(said.get("saved_at")),
        _word(said.get("elastic")),
        _place(said.get("endpoint")),
        tuple(_diverged(said.get("figures"))[:MOST_FIGURES]),
    )


def progress(said: Report) -> dict[str, float]:
    """Its figures, and where it computes in a team, how far and how fast this very worker is."""
    figures = dict(said.figures)
    if said.word.step is not None and said.word.lap is not None:
        figures |= {"step": max(said.word.step, figures.get("step", 0.0)), "step_seconds": said.word.lap}
    return figures


def _object(line: str) -> dict[str, object]:
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


def _place(said: object) -> Place | None:
    if not isinstance(said, dict):
        return None
    address, secret = said.get("address"), said.get("secret")
    if not isinstance(address, str) or not _is_address(address):
        return None
    if not isinstance(secret, str) or not SECRET.fullmatch(secret):
        return None
    return Place(address, secret, _number(said.get("used_at")))


def _is_address(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    return bool(host and colon) and port.isdecimal() and text.isascii() and len(text) <= LONGEST_ADDRESS


def _figures(said: object) -> list[tuple[str, float]]:
    if not isinstance(said, dict):
        return []
    numbers = ((name, _number(value)) for name, value in said.items() if _is_name(name))
    return [(name, number) for name, number in numbers if number is not None]


def _diverged(said: object) -> list[str]:
    """JSON has no word for these numbers; Python writes and reads NaN, Infinity and -Infinity."""
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
