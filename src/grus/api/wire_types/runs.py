"""Wire models of runs: results of ended jobs, and the differences between two of them."""

from pydantic import Field

from grus.api.profile_wire import RunOut, run_out
from grus.api.units import gpu_number
from grus.api.wire_types.base import Out
from grus.api.wire_types.timestamps import maybe_rfc3339, rfc3339
from grus.model.artefacts import Artifact
from grus.model.results import Result, words_of
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


class ResultOut(Out):
    """Result of one ended job."""

    job: str
    name: str
    user: str
    queue: str
    type: str
    phase: str
    reason: str = ""
    submitted_at: str
    started_at: str | None = None
    """Time of its first start; null if it never started."""
    ended_at: str
    attempts: int = 0
    seconds: float = 0.0
    """Seconds that it ran, in all attempts."""
    gpu_hours: float = 0.0
    """GPU-hours that it held."""
    most_gpus: float | int = 0
    """Largest number of GPUs held at once."""
    command: str = ""
    workdir: str = ""
    image: str = ""
    params: dict[str, Value] = Field(default_factory=dict)
    env: tuple[str, ...] = ()
    """Names of its own environment variables."""
    metrics: dict[str, MetricOut] = Field(default_factory=dict)
    code: str = ""
    """Digest of the code that it ran."""
    data: str = ""
    """Digest of its data, from names, sizes and times."""
    inputs: tuple[KeptArtefactOut, ...] = ()
    outputs: tuple[KeptArtefactOut, ...] = ()
    sweep: str | None = None
    trial: int | None = None
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


def result_out(one: Result) -> ResultOut:
    return ResultOut(
        job=one.job,
        name=one.name,
        user=one.user,
        queue=one.queue,
        type=one.type.value,
        phase=one.phase.value,
        reason=one.reason,
        submitted_at=rfc3339(one.submitted_at),
        started_at=maybe_rfc3339(one.started_at),
        ended_at=rfc3339(one.ended_at),
        attempts=one.attempts,
        seconds=one.seconds,
        gpu_hours=one.gpu_seconds / 3600,
        most_gpus=gpu_number(one.most_held),
        command=words_of(one.command),
        workdir=one.workdir,
        image=one.image,
        params=dict(one.params),
        env=tuple(name for name, _ in one.env),
        metrics={m.name: MetricOut(last=m.last, least=m.least, most=m.most) for m in one.metrics},
        code=one.code,
        data=one.data,
        inputs=tuple(map(_artefact_out, one.inputs)),
        outputs=tuple(map(_artefact_out, one.outputs)),
        sweep=None if one.trial is None else one.trial.sweep,
        trial=None if one.trial is None else one.trial.number,
        same_as=one.same_as,
        fingerprint=one.fingerprint,
        profile=None if one.profile is None else run_out(one.profile),
    )


def diff_out(first: Result, second: Result) -> DiffOut:
    lines = tuple(
        DifferenceOut(part=one.part.value, name=one.name, first=one.first, second=one.second, same=one.same)
        for one in differences(first, second)
    )
    return DiffOut(first=result_out(first), second=result_out(second), differences=lines)


def _artefact_out(one: Artifact) -> KeptArtefactOut:
    return KeptArtefactOut(name=one.name, digest=one.digest, size=one.size)
