"""Results: the permanent record of a job with its inputs, its metrics and its outputs."""

import shlex
from dataclasses import dataclass

from grus.model.artifacts import Artifact
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.jobs import JobType, Phase
from grus.model.profiles import ProfiledRun
from grus.model.sweep_search import Params, Trial


@dataclass(frozen=True, slots=True)
class Metric:
    """Metric that a job reported: its last value, and its extremes."""

    name: str
    last: float
    least: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One job that has ended."""

    job: JobId
    name: str
    user: UserName
    queue: QueueName
    type: JobType
    phase: Phase
    submitted_at: float
    started_at: float | None
    """Time of its first start; None if it never started."""
    ended_at: float
    reason: str = ""
    """Why it ended as it did, for people."""
    attempts: int = 0
    seconds: float = 0.0
    """Seconds that it ran, in all attempts."""
    gpu_seconds: float = 0.0
    """GPU-seconds allocated to it."""
    most_held: int = 0
    """Micro-GPUs that it held at once."""
    command: tuple[str, ...] = ()
    workdir: str = ""
    params: Params = ()
    env: tuple[tuple[str, str], ...] = ()
    """Its own environment variables: names, and digests of their values, which may be secret."""
    metrics: tuple[Metric, ...] = ()
    """Metrics, by name."""
    code: str = ""
    """Digest of the code that it ran; empty if the code was not read."""
    data: str = ""
    """Digest of what its data looked like from outside; empty if it names none."""
    image: str = ""
    inputs: tuple[Artifact, ...] = ()
    """Inputs whose content is known."""
    outputs: tuple[Artifact, ...] = ()
    trial: Trial | None = None
    key: str = ""
    """Key of everything that its outputs depend on: a stage with the same key need not run again."""
    same_as: JobId | None = None
    """Earlier run whose outputs it has reused, because nothing had changed; it never ran itself."""
    fingerprint: str = ""
    """Fingerprint of its profile."""
    profile: ProfiledRun | None = None
    """Measured usage; None if it never ran."""

    def metric(self, name: str) -> Metric | None:
        return next((one for one in self.metrics if one.name == name), None)


WRITTEN = {
    ("python3", "-m", "grus.elastic.section"): "train:",
    ("python3", "-m", "grus.serving.replica"): "serve:",
    ("python3", "-m", "grus.interactive.session"): "grus dev:",
}
"""Text that users wrote for programs that Grus runs on
their behalf; the program's only argument follows it.
"""


def words_of(argv: tuple[str, ...]) -> str:
    """A command as people wrote it."""
    if len(argv) == 4 and (written := WRITTEN.get(argv[:3])):
        return f"{written} {argv[3]}"
    return argv[2] if argv[:2] == ("/bin/sh", "-c") and len(argv) == 3 else shlex.join(argv)
