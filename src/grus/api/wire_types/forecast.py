"""Wire models of forecasts: the next hour or day of a GPU, a job, a queue or the pool."""

from collections.abc import Sequence
from typing import Annotated

from grus.api.wire_types.base import Out, Source, Timestamp


class AheadOut(Out):
    """Forecast of one step."""

    at: Timestamp
    """Time at which the step begins."""
    median: float
    low: float
    high: float
    """Nine of ten values should lie from `low` to `high`."""


class ForecastOut(Out):
    """Forecast, or in `missing` the reason why there is none."""

    of: Annotated[str, Source("whose")]
    name: str = ""
    measure: str
    reach: str
    """`hour` or `day`."""
    missing: str = ""
    """Empty if there is a forecast."""
    step: float | None = None
    """Seconds."""
    season: float | None = None
    """Seconds of the longest season that was used; null if there was too little data for any."""
    basis: str = ""
    """Basis of the forecast, in words."""
    ends: Timestamp | None = None
    """Expected end of a job."""
    ahead: Sequence[AheadOut] = ()
