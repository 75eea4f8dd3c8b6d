"""Forecasts on the wire: the next hour or day of a GPU, a job, a queue or the pool."""

from collections.abc import Sequence

from grus.api.out import Out


class AheadOut(Out):
    """What is expected of one step."""

    at: str
    """When the step begins."""
    median: float
    low: float
    high: float
    """Nine of ten values should lie from `low` to `high`."""


class ForecastOut(Out):
    """A forecast, or in `missing` why there is none."""

    of: str
    name: str = ""
    measure: str
    reach: str
    """`hour` or `day`."""
    missing: str = ""
    """Empty if there is a forecast."""
    step: float | None = None
    """Seconds."""
    season: float | None = None
    """Seconds of the longest season that was used; null if there was too little for any."""
    basis: str = ""
    """What it rests on, in words."""
    ends: str | None = None
    """Of a job: when it is expected to end."""
    ahead: Sequence[AheadOut] = ()
