"""Wire models of the metrics that jobs report over time."""

from collections.abc import Sequence

from grus.api.wire_types.base import Out
from grus.api.wire_types.timestamps import rfc3339
from grus.model.identifiers import JobId
from grus.model.metrics_history import Curves


class CurveOut(Out):
    """One metric over time: the n-th entries of all lists belong together."""

    name: str
    at: Sequence[str] = ()
    step: Sequence[float | None] = ()
    """Steps; null if the job counted none."""
    value: Sequence[float] = ()
    attempt: Sequence[int] = ()


class CurvesOut(Out):
    """Metrics that a job has reported; `throughput` is derived from its steps if it does not report one."""

    job: str
    curves: Sequence[CurveOut] = ()


def curves_out(job: JobId, found: Curves) -> CurvesOut:
    return CurvesOut(
        job=job,
        curves=[
            CurveOut(
                name=curve.name,
                at=[rfc3339(point.at) for point in curve.points],
                step=[point.step for point in curve.points],
                value=[point.value for point in curve.points],
                attempt=[point.attempt for point in curve.points],
            )
            for curve in found.curves
        ],
    )
