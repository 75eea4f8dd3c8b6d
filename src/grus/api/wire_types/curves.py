"""Wire models of the metrics that jobs report over time."""

from collections.abc import Sequence
from typing import Annotated

from grus.api.wire_types.base import Derived, Out, Timestamp


class CurveOut(Out):
    """One metric over time: the n-th entries of all lists belong together."""

    name: str
    at: Annotated[Sequence[Timestamp], Derived(lambda curve: [point.at for point in curve.points])] = ()
    step: Annotated[
        Sequence[float | None], Derived(lambda curve: [point.step for point in curve.points])
    ] = ()
    """Steps; null if the job counted none."""
    value: Annotated[Sequence[float], Derived(lambda curve: [point.value for point in curve.points])] = ()
    attempt: Annotated[Sequence[int], Derived(lambda curve: [point.attempt for point in curve.points])] = ()


class CurvesOut(Out):
    """Metrics that a job has reported; `throughput` is derived from its steps if it does not report one."""

    job: str
    curves: Sequence[CurveOut] = ()
