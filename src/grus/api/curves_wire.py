"""What jobs report over time, on the wire."""

from collections.abc import Sequence

from grus.api.out import Out
from grus.api.times import rfc3339
from grus.model.curves import Curves
from grus.model.identifiers import JobId


class CurveOut(Out):
    """One figure over time: the n-th entries of all lists belong together."""

    name: str
    at: Sequence[str] = ()
    step: Sequence[float | None] = ()
    """Null where the job counted no steps."""
    value: Sequence[float] = ()
    attempt: Sequence[int] = ()


class CurvesOut(Out):
    """What a job has reported; `throughput` is worked out of its steps if it does not report one."""

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
