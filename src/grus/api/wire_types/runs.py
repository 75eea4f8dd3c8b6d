"""Wire models of runs: results of ended jobs, and the differences between two of them."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from grus.api.profile_wire import RunOut
from grus.api.wire_types.base import Convert, Derived, GpuCount, GpuHours, Out, Source, Timestamp
from grus.model.results import Metric, Result, words_of
from grus.model.run_diff import differences
from grus.model.sweep_search import Value


class MetricOut(Out):
    """Metric that the job reported."""

    last: float
    least: float
    most: float


class KeptArtefactOut(Out):
    name: str
    digest: str
    size: int


def _metrics(metrics: Iterable[Metric]) -> dict[str, MetricOut]:
    return {metric.name: MetricOut.from_model(metric) for metric in metrics}


def _names(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [name for name, _ in pairs]


class ResultOut(Out):
    """Result of one ended job."""

    job: str
    name: str
    user: str
    queue: str
    type: str
    phase: str
    reason: str = ""
    submitted_at: Timestamp
    started_at: Timestamp | None = None
    """Time of its first start; null if it never started."""
    ended_at: Timestamp
    attempts: int = 0
    seconds: float = 0.0
    """Seconds that it ran, in all attempts."""
    gpu_hours: GpuHours = 0.0
    """GPU-hours that it held."""
    most_gpus: Annotated[GpuCount, Source("most_held")] = 0
    """Largest number of GPUs held at once."""
    command: Annotated[str, Convert(words_of)] = ""
    workdir: str = ""
    image: str = ""
    params: Annotated[dict[str, Value], Convert(dict)] = Field(default_factory=dict)
    env: Annotated[tuple[str, ...], Convert(_names)] = ()
    """Names of its own environment variables."""
    metrics: Annotated[dict[str, MetricOut], Convert(_metrics)] = Field(default_factory=dict)
    code: str = ""
    """Digest of the code that it ran."""
    data: str = ""
    """Digest of its data, from names, sizes and times."""
    inputs: tuple[KeptArtefactOut, ...] = ()
    outputs: tuple[KeptArtefactOut, ...] = ()
    sweep: Annotated[str | None, Derived(lambda result: result.trial and result.trial.sweep)] = None
    trial: Annotated[int | None, Derived(lambda result: result.trial and result.trial.number)] = None
    same_as: str | None = None
    """Earlier run whose outputs it has taken over; it never ran itself."""
    fingerprint: str = ""
    profile: RunOut | None = None
    """Measured resource use."""


class DifferenceOut(Out):
    part: str
    """One of parameters, metrics, code, data, `artefacts`, profile and job."""
    name: str
    first: Value | None = None
    second: Value | None = None
    same: bool


class DiffOut(Out):
    """Comparison of two runs."""

    first: ResultOut
    second: ResultOut
    differences: tuple[DifferenceOut, ...] = ()
    """Values of either run, also the equal ones."""


def diff_out(first: Result, second: Result) -> DiffOut:
    lines = tuple(DifferenceOut.from_model(one) for one in differences(first, second))
    return DiffOut(first=ResultOut.from_model(first), second=ResultOut.from_model(second), differences=lines)
