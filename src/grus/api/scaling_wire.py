"""How jobs took changes of their size and what more GPUs brought them, as reports show it.

GPUs are numbers such as 2 or 0.5, times RFC 3339, lengths of time seconds. What was not measured, or not put
to the test, is None: never zero, never a guess.
"""

from grus.api.out import Out

Gpus = float | int


class ResizeOut(Out):
    """One change of a job's size while it had work to do."""

    job: str
    name: str
    at: str
    how: str
    """grow, shrink, move or restart (it saved, ended, and began again with another size)."""
    before: Gpus
    after: Gpus
    worked: bool | None = None
    """Whether it went on at the new size; None where that cannot be told from its events."""
    seconds: float | None = None
    """Until it had adapted: until the new ones computed with the others, until what it gave back was free,
    or until it ran again; None where nobody says."""


class SpeedOut(Out):
    """How fast jobs of one kind were at one size."""

    gpus: int
    throughput: float
    """Examples a second; steps a second where the batch is not told."""
    speedup: float
    """Throughput against that at the smallest size."""
    efficiency: float
    """Speed-up against the number of times the GPUs; 1 is full advantage."""
    foretold: float | None = None
    """The speed-up that a fit to the other sizes gives; None of the smallest, and of fewer than three."""
    steps: float | None = None
    """Steps that this was measured on; None of what earlier runs have shown."""
    seconds: float | None = None


class FitOut(Out):
    """The speed-up that the fit gives a size, within one standard deviation."""

    gpus: int
    speedup: float
    low: float
    high: float


class SpeedupOut(Out):
    """What more GPUs brought the jobs of one fingerprint, on one type of GPU."""

    name: str
    type: str
    jobs: tuple[str, ...]
    unit: str
    """examples or steps."""
    sizes: tuple[SpeedOut, ...]
    """The smallest, which the others are held against, first."""
    fit: tuple[FitOut, ...] = ()
    """Empty where one size alone is known."""
    error: float | None = None
    """Root mean square of what the foretold speed-ups are off, as a part of the measured ones."""
    full: bool | None = None
    """Whether the largest size still has an efficiency of at least four fifths; None of a single size."""
    sentence: str = ""


class ScalabilityOut(Out):
    """Both meanings of the word: still works when resized; takes full advantage of more GPUs."""

    resizes: tuple[ResizeOut, ...] = ()
    """The newest; no more than a few hundred."""
    resizes_in_all: int = 0
    worked: int = 0
    """Resizes after which the job went on at its new size."""
    failed: int = 0
    """… and after which it did not."""
    speedups: tuple[SpeedupOut, ...] = ()
    """Of those measured on most steps; no more than a hundred."""
    sentence: str = ""


class CourseOut(Out):
    """GPUs that computed together, from each moment on."""

    at: str
    gpus: Gpus


class ElasticJobOut(Out):
    """What one job has shown. None: it was not put to the test."""

    job: str
    name: str
    queue: str
    asked: Gpus
    most: Gpus
    starts_below: bool | None = None
    """Whether it began with fewer GPUs than it can use; False of a job that can use one number only."""
    survives_loss: bool | None = None
    """Whether the others went on when a worker was lost; False if it had to begin again."""
    uses_late: bool | None = None
    """Whether workers that came later computed with the others."""
    started_with: Gpus | None = None
    lost: int = 0
    late: int = 0
    """Times that late workers joined."""
    restarts: int = 0
    """Attempts that ended because a worker did, so that it had to begin again."""
    course: tuple[CourseOut, ...] = ()


class AdaptingOut(Out):
    """How long jobs took to adapt."""

    to: str
    """grow, shrink, loss or restart."""
    times: int
    measured: int
    """How many of these tell how long it took."""
    median: float | None = None
    longest: float | None = None


class SupplyOut(Out):
    """What jobs wanted against what they had, on an even grid; GPUs."""

    start: str
    step: float
    demand: tuple[float | None, ...]
    held: tuple[float | None, ...]
    capacity: tuple[float | None, ...]
    wanted_gpu_hours: float
    held_gpu_hours: float
    unmet_gpu_hours: float
    """Wanted and not had, while there were GPUs free."""
    beyond_gpu_hours: float
    """Wanted beyond all that there was."""
    unmet_time: float
    """Part of the time in which something was wanted, and GPUs were free."""
    source: str
    """jobs (their events) or counts (each minute)."""


class ElasticityOut(Out):
    jobs: tuple[ElasticJobOut, ...] = ()
    """Those whose size changed most often; no more than a few hundred."""
    jobs_in_all: int = 0
    adapting: tuple[AdaptingOut, ...] = ()
    supply: SupplyOut | None = None
    sentence: str = ""


class SplitSideOut(Out):
    """The same jobs under one regime. Seconds; parts are 0 to 1."""

    name: str
    """measured, present or static split."""
    jobs: int
    completion_mean: float
    completion_p50: float
    completion_p99: float
    wait_mean: float
    wait_p99: float
    makespan: float
    utilisation: float | None = None
    preemptions: int | None = None


class SplitOut(Out):
    """Before and after: each queue with GPUs of its own, against one pool; by simulation of the same jobs."""

    shares: dict[str, int]
    """GPUs that each queue would own."""
    sides: tuple[SplitSideOut, ...]
    left_out: int = 0
    """Jobs that did not end, or never ran: nobody knows how long they are."""
    sentence: str = ""
    buying: str = ""
    """Whether another node like the largest one would pay: a sentence."""
