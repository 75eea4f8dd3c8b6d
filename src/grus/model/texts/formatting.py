"""Rendering of numbers, bytes and durations for users, the same on a terminal and on a page."""

from collections.abc import Mapping


def span(seconds: float) -> str:
    """Render a duration in its two largest units: 45s, 3m 10s, 2h 5m, 1d 4h."""
    left = max(0, round(seconds))
    for size, name, below, under in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if left >= size:
            rest = left % size // below
            return f"{left // size}{name} {rest}{under}" if rest else f"{left // size}{name}"
    return f"{left}s"


def number(value: float | None) -> str:
    """Render a number: 2, 0.5; a dash for none."""
    return "–" if value is None else f"{value:.6f}".rstrip("0").rstrip(".")


def size(amount: float | None) -> str:
    """Render bytes in powers of 1000: 16GB, 512MB."""
    left = float(amount or 0)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if left < 1000 or unit == "TB":
            return f"{left:.1f}".rstrip("0").rstrip(".") + unit
        left /= 1000
    raise AssertionError("unreachable")


def progress(figures: Mapping[str, float]) -> list[str]:
    """Return a job's reported metrics in words: `step 120/5000 (2%)`, `loss 0.31`; the progress comes
    first.
    """
    left = dict(figures)
    total = left.pop("total", 0.0)
    words = []
    for name in ("step", "epoch"):
        if (value := left.pop(name, None)) is not None:
            share = f"/{_figure(total)} ({value / total:.0%})" if total > 0 else ""
            words.append(f"{name} {_figure(value)}{share}")
            total = 0.0  # of what is named first
    return words + [f"{name} {_figure(value)}" for name, value in left.items()]


def _figure(value: float) -> str:
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"


def percent(part: float | None, whole: float) -> str:
    """Render a part of a whole; nothing without data."""
    return "" if part is None or whole <= 0 else f"{part / whole:.0%}"
