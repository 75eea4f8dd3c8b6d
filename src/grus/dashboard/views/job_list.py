"""The job list as plain values: the content of a row, the query in the page's address, and the changes.

Pure: rows are made of the board's briefs, queries of the words in an address, changes of two looks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from starlette.datastructures import QueryParams

from grus.dashboard.live_state.job_index import DOWN_AT_FIRST, SORTS, Brief, JobFilter, JobListing, JobState
from grus.model.identifiers import JobId
from grus.model.texts.units import gpu_number

PAGE = 100
"""Lines at first, and by how many the list grows."""
MOST_ROWS = 2000
"""Lines of one list; beyond that a filter finds what scrolling would not."""
LONGEST_WORD = 200

Row = dict[str, str | float | bool | None]
"""One line, as the browser gets it."""


def row_of(brief: Brief, starts: float | None = None) -> Row:
    """`starts`: by when it will, as far as that is foreseen of one that waits."""
    ran = brief.started is not None and brief.ended is not None
    return {
        "id": brief.id,
        "name": brief.name,
        "user": brief.user,
        "queue": brief.queue,
        "state": brief.state.value,
        "status": brief.status,
        "type": brief.type,
        "priority": brief.priority,
        "gpus": _gpus(brief),
        "holds": brief.held > 0,
        "submitted": round(brief.submitted, 3),
        "since": _since(brief),
        "lasted": round((brief.ended or 0.0) - (brief.started or 0.0), 3) if ran else None,
        "starts": None if starts is None else round(starts),
        "why": brief.why,
    }


def _gpus(brief: Brief) -> str:
    """Return the allocated GPUs, and the requested ones if they differ."""
    held = f"{gpu_number(brief.held):g}"
    if not brief.held:
        return brief.asked
    return held if held == brief.asked else f"{held} of {brief.asked}"


def _since(brief: Brief) -> float | None:
    """Return the time since which it runs, or waits; None if it has ended."""
    if brief.ended is not None:
        return None
    return round(brief.started if brief.started is not None else brief.submitted, 3)


# ----------------------------------------------------------------------------------------------- addresses


def wanted_of(query: QueryParams) -> JobFilter:
    """Parse the query of an address. Unknown words are ignored: old addresses continue to work."""
    sort = query.get("sort", "submitted")
    sort = sort if sort in SORTS else "submitted"
    known = {state.value for state in JobState}
    return JobFilter(
        text=query.get("q", "")[:LONGEST_WORD],
        states=frozenset(state for state in map(_state, query.getlist("state")) if state in known),
        queue=query.get("queue", "")[:LONGEST_WORD],
        user=query.get("user", "")[:LONGEST_WORD],
        type=query.get("type", "")[:LONGEST_WORD],
        sort=sort,
        down=_down(query.get("order", ""), sort),
        limit=_limit(query.get("rows", "")),
    )


def _state(word: str) -> str:
    """Addresses from before say `waiting`."""
    return JobState.PENDING.value if word == "waiting" else word


def _down(order: str, sort: str) -> bool:
    return order == "down" if order in ("up", "down") else sort in DOWN_AT_FIRST


def _limit(rows: str) -> int:
    number = int(rows) if rows.isdecimal() and len(rows) < 9 else PAGE
    return min(max(number, PAGE), MOST_ROWS)


# ------------------------------------------------------------------------------------------------- changes


@dataclass(frozen=True, slots=True)
class ClientRows:
    """The data that a browser has received; by default nothing, not even that there is nothing."""

    rows: Mapping[str, Row] = field(default_factory=dict)
    order: tuple[str, ...] | None = None
    figures: Mapping[str, object] = field(default_factory=dict)


def shown_of(
    found: JobListing, full: bool, starts: Callable[[JobId], float | None] = lambda _: None
) -> ClientRows:
    """`full`: whether all jobs are on the board yet; `starts`: by when one that waits will start."""
    figures = {
        "total": found.total,
        "everything": found.everything,
        "counts": found.counts,
        "choices": {"queue": list(found.queues), "user": list(found.users), "type": list(found.types)},
        "full": full,
    }
    rows = {
        brief.id: row_of(brief, starts(brief.id) if brief.state is JobState.PENDING else None)
        for brief in found.rows
    }
    return ClientRows({str(id_): row for id_, row in rows.items()}, tuple(rows), figures)


def difference(before: ClientRows, now: ClientRows) -> dict[str, object]:
    """Return the update for a browser: new or changed rows, and the order and the figures if they changed."""
    told: dict[str, object] = {}
    if rows := [row for id_, row in now.rows.items() if before.rows.get(id_) != row]:
        told["rows"] = rows
    if now.order != before.order:
        told["order"] = now.order
    if now.figures != before.figures:
        told["figures"] = now.figures
    return told


def whole(wanted: JobFilter) -> JobFilter:
    """Everything that matches, not only what the list shows."""
    return replace(wanted, offset=0, limit=MOST_ROWS)
