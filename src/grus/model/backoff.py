"""Exponential backoff."""


def backoff(failures: int, first: float, longest: float) -> float:
    """Return the seconds to wait after that many failures in a row: doubled each time, up to the longest."""
    return float(min(longest, first * 2.0 ** min(max(failures, 1) - 1, 30)))
