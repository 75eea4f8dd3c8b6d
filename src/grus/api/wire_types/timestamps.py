"""Points in time on the wire: RFC 3339, UTC, to the millisecond; seconds since 1970 inside."""

from datetime import UTC, datetime


def rfc3339(at: float) -> str:
    """Render seconds since 1970 as RFC 3339: 1763248440.5 is `2025-11-15T23:14:00.500Z`."""
    return datetime.fromtimestamp(at, UTC).isoformat("T", "milliseconds").removesuffix("+00:00") + "Z"


def parse_time(text: str) -> float:
    """Parse RFC 3339, the inverse of rfc3339; a time without a zone is refused with ValueError."""
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError("must end in Z or an offset such as +01:00")
    return at.timestamp()
