"""Forecast of a series with an interval: the next hour or day of a GPU, a job, a queue, the pool.

    values -> guesses (the last value, recent means, seasons) -> their best mixture for each distance ahead
           -> its errors in the past, out of sample -> the interval

A series that is too short has no forecast: `Nothing` says how much is missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grus.patterns.forecast_ensemble import ahead, learns_from

DAY = 86400.0
WEEK = 7 * DAY
ENOUGH = 3
"""A forecast needs so many times its own length of the past, and a season is used that was seen so often."""
FEWEST = 36
"""Values, however short the forecast."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Forecast:
    """One value for each step ahead. The first is that of the step which begins at `start`."""

    start: float
    step: float
    median: Array
    low: Array
    high: Array
    """`low` and `high` bound what nine of ten values should stay within."""
    season: float | None
    """Seconds of the longest season that was used; None if the series showed too little for any."""
    sentence: str
    """The basis of the forecast, for people."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is no forecast yet."""

    sentence: str
    """The missing data and the time that it takes, as the rest of a sentence whose beginning names them."""


def forecast(
    values: Array,
    step: float,
    horizon: float,
    *,
    start: float = 0.0,
    seasons: Sequence[float] = (DAY, WEEK),
    most: float | None = None,
) -> Forecast | Nothing:
    """Forecast the next `horizon` seconds of a series with a value every `step` seconds from `start`; NaN =
    gap.

    `seasons`: seconds after which it may repeat itself; a recognized period can be one. A season that the
    series is too short for is left out. No value is below 0 nor, if it is given, above `most`.
    """
    steps = max(1, round(horizon / step))
    series = np.asarray(values, dtype=np.float64)
    known = np.isfinite(series)
    if missing := _missing(known, step, steps):
        return Nothing(missing)
    first = int(np.argmax(known))
    series, known = _filled(series[first:], known[first:]), known[first:]
    used = [season for season in seasons if _seen(known, season / step, steps)]
    found = ahead(series, known, steps, [season / step for season in used])
    top = np.inf if most is None else most
    return Forecast(
        start=start + len(values) * step,
        step=step,
        median=np.clip([one.median for one in found], 0.0, top),
        low=np.clip([one.low for one in found], 0.0, top),
        high=np.clip([one.high for one in found], 0.0, top),
        season=max(used, default=None),
        sentence=_basis(int(known.sum()) * step, used),
    )


def _missing(known: NDArray[np.bool_], step: float, steps: int) -> str:
    """Return the data missing for a forecast; empty if there is enough."""
    need = max(ENOUGH * steps, FEWEST)
    have = int(known.sum())
    if have < need:
        return (
            f"{span(need * step)} of measurements are needed, there are {span(have * step)}; "
            f"{span((need - have) * step)} more to go"
        )
    stale = int(np.argmax(known[::-1]))
    if stale >= steps:
        return f"the last measurement is {span(stale * step)} old, as long ago as the forecast would reach"
    return ""


def _seen(known: NDArray[np.bool_], season: float, steps: int) -> bool:
    """Return whether the series holds this season often enough, with enough after it to learn from."""
    if season < 2 or season * ENOUGH > len(known):
        return False
    return int(known[learns_from((season,)) + steps :].sum()) >= max(steps, FEWEST // ENOUGH)


def _filled(series: Array, known: NDArray[np.bool_]) -> Array:
    """Gaps bridged by a straight line, so that there is something to look back on."""
    at = np.arange(len(series))
    return np.interp(at, at[known], series[known])


def _basis(measured: float, seasons: Sequence[float]) -> str:
    if not seasons:
        return f"from {span(measured)} of measurements, too few for a season"
    return f"from {span(measured)} of measurements, with seasons of {' and '.join(map(span, seasons))}"


def span(seconds: float) -> str:
    """A length of time for people, in its two largest units."""
    left, parts = round(seconds), []
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"
