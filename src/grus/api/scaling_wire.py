"""Scaling reports: the effect of size changes on jobs, and the speed-up from more GPUs.

GPUs are numbers such as 2 or 0.5, times RFC 3339, lengths of time seconds. A value that was not measured, or
not tested, is None: never zero, never a guess.
"""

from typing import Annotated

from grus.api.wire_types.base import Convert, Out, Source, Timestamp
from grus.model.resources import GPU
from grus.model.texts.units import gpu_number

Gpus = Annotated[float | int, Convert(lambda gpus: gpu_number(round(gpus * GPU)))]


class ResizeOut(Out):
    """Size change of a job while it had work to do."""

    job: str
    name: str
    at: Timestamp
    how: str
    """Kind: grow, shrink, move or restart (it saved, ended, and started again with another size)."""
    before: Gpus
    after: Gpus
    worked: bool | None = None
    """True if it continued at the new size; None if its events do not show it."""
    seconds: Annotated[float | None, Convert(lambda seconds: round(seconds, 3))] = None
    """Seconds until it had adapted: until the new workers computed with the others, until the released GPUs
    were free, or until it ran again; None if unknown.
    """


class SpeedOut(Out):
    """Speed of jobs of one kind at one size."""

    gpus: int
    throughput: float
    """Examples a second; steps a second if the batch size is not reported."""
    speedup: float
    """Throughput relative to that at the smallest size."""
    efficiency: float
    """Speed-up divided by the factor of GPUs; 1 is ideal scaling."""
    foretold: float | None = None
    """Speed-up predicted by a fit to the other sizes; None for the smallest, and with fewer than three
    sizes.
    """
    steps: float | None = None
    """Steps of this measurement; None for results of earlier runs."""
    seconds: float | None = None


class FitOut(Out):
    """Speed-up predicted by the fit at a size, within one standard deviation."""

    gpus: int
    speedup: float
    low: float
    high: float


class SpeedupOut(Out):
    """Speed-up of the jobs of one fingerprint with more GPUs, on one type of GPU."""

    name: str
    type: str
    jobs: tuple[str, ...]
    unit: str
    """examples or steps."""
    sizes: tuple[SpeedOut, ...]
    """Sizes, the smallest first, which the others are compared with."""
    fit: tuple[FitOut, ...] = ()
    """Fitted speed-ups; empty if only one size is known."""
    error: float | None = None
    """Root mean square of the relative error of the predicted speed-ups."""
    full: bool | None = None
    """True if the efficiency at the largest size is at least four fifths; None if there is only one size."""
    sentence: str = ""


class ScalabilityOut(Out):
    """Scalability in both meanings: jobs still work when resized; they take full advantage of more GPUs."""

    resizes: tuple[ResizeOut, ...] = ()
    """Newest resizes; no more than a few hundred."""
    resizes_in_all: int = 0
    worked: int = 0
    """Resizes after which the job continued at its new size."""
    failed: int = 0
    """Resizes after which it did not continue."""
    speedups: tuple[SpeedupOut, ...] = ()
    """Speed-ups of the fingerprints measured on most steps; no more than a hundred."""
    sentence: str = ""


class CourseOut(Out):
    """GPUs that computed together, from each moment on."""

    at: str
    gpus: Gpus


class ElasticJobOut(Out):
    """Elasticity of one job, as observed. None: it was not tested."""

    job: str
    name: str
    queue: str
    asked: Gpus
    most: Gpus
    starts_below: bool | None = None
    """True if it started with fewer GPUs than it can use; False for a job that can use one number only."""
    survives_loss: bool | None = None
    """True if the others continued when a worker was lost; False if the job had to restart."""
    uses_late: bool | None = None
    """True if workers that came later computed with the others."""
    started_with: Gpus | None = None
    lost: int = 0
    late: int = 0
    """Number of times that late workers joined."""
    restarts: int = 0
    """Attempts that ended because a worker did, so that the job had to restart."""
    course: tuple[CourseOut, ...] = ()


class AdaptingOut(Out):
    """Durations of jobs' adaptation to a new size."""

    to: str
    """grow, shrink, loss or restart."""
    times: int
    measured: int
    """Number of these whose duration is known."""
    median: float | None = None
    longest: float | None = None


class SupplyOut(Out):
    """GPUs that jobs could use compared with the GPUs that they had, on an even grid."""

    start: str
    step: float
    demand: tuple[float | None, ...]
    held: tuple[float | None, ...]
    capacity: tuple[float | None, ...]
    wanted_gpu_hours: float
    held_gpu_hours: float
    unmet_gpu_hours: float
    """Requested and not allocated, while there were GPUs free."""
    beyond_gpu_hours: float
    """Requested beyond the whole pool."""
    unmet_time: float
    """Part of the time in which GPUs were requested and others were free."""
    source: str
    """Source of the data: jobs (their events) or counts (each minute)."""


class ElasticityOut(Out):
    jobs: tuple[ElasticJobOut, ...] = ()
    """Jobs whose size changed most often; no more than a few hundred."""
    jobs_in_all: int = 0
    adapting: tuple[AdaptingOut, ...] = ()
    supply: SupplyOut | None = None
    sentence: str = ""


class SplitSideOut(Out):
    """Same jobs under one regime. Seconds; parts are 0 to 1."""

    name: str
    """measured, present or static split."""
    jobs: int
    completion_mean: Annotated[float, Source("jct_mean")]
    completion_p50: Annotated[float, Source("jct_p50")]
    completion_p99: Annotated[float, Source("jct_p99")]
    wait_mean: float
    wait_p99: float
    makespan: float
    utilisation: float | None = None
    preemptions: int | None = None


class SplitOut(Out):
    """Comparison by simulation of the same jobs: each queue with GPUs of its own, against one pool."""

    shares: dict[str, int]
    """GPUs that each queue would own."""
    sides: tuple[SplitSideOut, ...]
    left_out: int = 0
    """Jobs that did not end, or never ran: their length is unknown."""
    sentence: str = ""
    buying: str = ""
    """Sentence about the benefit of another node like the largest one."""
    model: str = ""
    """Assumptions of the simulation, and its distance from the measurement."""
