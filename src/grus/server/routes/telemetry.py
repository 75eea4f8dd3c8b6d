"""Routes of telemetry: the newest figures, and the past of one GPU, job, worker, queue, or of the pool."""

import math
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from grus.api.wire_types.telemetry import SeriesOut, TelemetryOut
from grus.api.wire_types.timestamps import parse_time, rfc3339
from grus.controlplane.monitoring.series_query import Whose
from grus.model.errors import BadInput, Mistake
from grus.model.texts.units import parse_seconds
from grus.server.http.dependencies import Does, Who, answer, off_loop
from grus.telemetry.samples import Measure

router = APIRouter(prefix="/v1", tags=["telemetry"])

LONGEST = 10 * 366 * 86_400.0
"""Seconds that anybody can look back."""


def _span(text: str) -> float:
    seconds = parse_seconds(text)
    if not 0 < seconds <= LONGEST:
        raise ValueError("must be longer than nothing and no more than ten years")
    return seconds


Name = Annotated[str, Query(max_length=253, description="Its id; nothing for the pool.")]
Last = Annotated[str, Query(max_length=40, description="How far back, such as 6h.")]
Until = Annotated[str | None, Query(max_length=40, description="RFC 3339; now if none.")]
Step = Annotated[float | None, Query(gt=0, le=LONGEST, description="Seconds; as fine as known if none.")]


@router.get("/telemetry", response_model=TelemetryOut)
async def telemetry(user: Who, does: Does) -> Response:
    """The newest figures of the GPUs, and of the workers of jobs that the caller sees."""
    return answer(TelemetryOut.from_model(await off_loop(does.telemetry.now, user)))


@router.get("/telemetry/series", response_model=SeriesOut)
async def series(
    user: Who,
    does: Does,
    of: Whose,
    measure: Measure,
    name: Name = "",
    last: Last = "1h",
    until: Until = None,
    step: Step = None,
    highest: bool = False,
) -> Response:
    """The past of one measure: means (or maxima) on an even grid, null where nothing is known."""
    found = await off_loop(
        does.telemetry.series,
        user,
        of,
        name,
        measure,
        back=_read("last", last, _span),
        until=None if until is None else _read("until", until, parse_time),
        step=step,
        highest=highest,
    )
    values = [None if math.isnan(value) else value for value in found.values.tolist()]
    return answer(
        SeriesOut(
            of=of.value,
            name=name,
            measure=measure.value,
            start=rfc3339(found.start),
            step=found.step,
            values=values,
        )
    )


def _read(field: str, text: str, reader: Callable[[str], float]) -> float:
    try:
        return reader(text)
    except (ValueError, OverflowError) as error:
        raise BadInput([Mistake(field, str(error), text)]) from None
