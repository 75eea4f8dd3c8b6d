"""Forecasts of a job in words: short for a table, a sentence for one job. Times are local."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from grus.cli.render.output import moment, span

if TYPE_CHECKING:
    from grus.api.wire_types.job import EtaOut
    from grus.api.wire_types.pool import ForecastsOut

SOON = timedelta(hours=1)
"""Times nearer than this are shown as the remaining time."""
NOW = timedelta(seconds=5)


def start_words(eta: "EtaOut | None") -> str:
    """`in ~12m`, `~14:05`, `soon`; a question mark where it cannot be said, nothing for a job that runs."""
    if eta is None:
        return ""
    if eta.start_p50 is None:
        return "?" if eta.unknown and eta.end_p50 is None else ""
    return _about(eta.start_p50)


def end_words(eta: "EtaOut | None") -> str:
    if eta is None:
        return ""
    return "?" if eta.end_p50 is None else _about(eta.end_p50)


def start_sentence(eta: "EtaOut | None") -> str:
    """P50 and P90; nothing for a job that runs."""
    if eta is None or eta.start_p50 is None:
        return ""
    if _left(eta.start_p50) <= NOW and eta.start_p90 == eta.start_p50:
        return "now"
    return f"about {_clock(eta.start_p50)} (P50), {_latest(eta.start_p90)} (P90)"


def end_sentence(eta: "EtaOut | None") -> str:
    if eta is None:
        return ""
    if eta.end_p50 is None:
        return f"unknown: {eta.unknown}" if eta.unknown else ""
    return f"about {_clock(eta.end_p50)} (P50), {_latest(eta.end_p90)} (P90)"


def sentences(eta: "EtaOut | None") -> list[str]:
    """Return the sentences for `why`: when it starts, when it ends, or why that is unknown."""
    if eta is None:
        return []
    found = []
    if start := start_sentence(eta):
        found.append(f"starts {start}")
    if end := end_sentence(eta):
        found.append(f"ends {end}" if eta.end_p50 else f"its end is {end}")
    return found


def record_words(record: "ForecastsOut | None") -> str:
    """Summarize forecast accuracy: `of 120 ends 52% came by their P50, 91% by their P90; of 40 starts …`."""
    if record is None:
        return ""
    kinds = (
        (record.settled, "ends", record.p50_coverage, record.p90_coverage),
        (record.starts_settled, "starts after a wait", record.start_p50_coverage, record.start_p90_coverage),
    )
    words = [
        f"of {count} {what} {half:.0%} came by their P50, {most:.0%} by their P90"
        for count, what, half, most in kinds
        if count and half is not None and most is not None
    ]
    return "; ".join(words) or "none has been put to the test yet"


def _left(text: str) -> timedelta:
    at = moment(text)
    return timedelta() if at is None else at - datetime.now(UTC)


def _about(text: str) -> str:
    left = _left(text)
    if left <= NOW:
        return "soon"  # It may have passed since it was foreseen.
    return f"in ~{_round(left)}" if left < SOON else f"~{_clock(text)}"


def _round(left: timedelta) -> str:
    """Round to whole minutes above one minute: seconds would claim more precision than the forecast has."""
    seconds = left.total_seconds()
    return span(seconds) if seconds < 60 else span(round(seconds / 60) * 60)


def _clock(text: str) -> str:
    """`14:05`, with the day when it is another one."""
    at = moment(text)
    if at is None:
        return ""
    here, today = at.astimezone(), datetime.now(UTC).astimezone()
    if here.date() == today.date():
        return here.strftime("%H:%M")
    near = here - today < timedelta(days=6)
    return here.strftime("%a %H:%M" if near else "%Y-%m-%d")


def _latest(text: str | None) -> str:
    return "perhaps weeks later" if text is None else f"at the latest {_clock(text)}"
