"""The route of forecasts: the next hour or day of a GPU, a job, a queue or the pool."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from grus.api.wire_types.forecast import AheadOut, ForecastOut
from grus.api.wire_types.timestamps import rfc3339
from grus.controlplane.monitoring.series_query import Whose
from grus.controlplane.monitoring.trend_forecast import Prospect, Reach
from grus.patterns.demand_forecast import Nothing
from grus.server.http.dependencies import Does, Who, answer, off_loop
from grus.telemetry.samples import Measure

router = APIRouter(prefix="/v1", tags=["telemetry"])

Name = Annotated[str, Query(max_length=253, description="Its id; nothing for the pool.")]
What = Annotated[
    Measure | None, Query(description="Demand of queues, utilisation of GPUs, if none is named.")
]


@router.get("/forecast", response_model=ForecastOut)
async def forecast(
    user: Who,
    does: Does,
    of: Whose = Whose.POOL,
    name: Name = "",
    reach: Reach = Reach.HOUR,
    measure: What = None,
) -> Response:
    """Return the forecast, with the interval of nine in ten; or the data missing for one."""
    return answer(_out(await off_loop(does.prospects.of, user, of, name, reach, measure)))


def _out(one: Prospect) -> ForecastOut:
    found = one.found
    if isinstance(found, Nothing):
        return ForecastOut.from_model(one, missing=found.sentence, step=None, season=None, basis="", ahead=())
    rows = zip(found.median.tolist(), found.low.tolist(), found.high.tolist(), strict=True)
    ahead = [
        AheadOut(at=rfc3339(found.start + number * found.step), median=median, low=low, high=high)
        for number, (median, low, high) in enumerate(rows)
    ]
    return ForecastOut.from_model(
        one, missing="", step=found.step, season=found.season, basis=found.sentence, ahead=ahead
    )
