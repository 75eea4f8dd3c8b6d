"""What is kept of a job for good: what it was given, what it reached, what it left behind."""

import shlex
from dataclasses import dataclass

from grus.model.artefacts import Artefact
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.jobs import JobType, Phase
from grus.model.profiles import Run
from grus.model.sweeps import Params, Trial


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure that a job reported: how it ended, and its extremes."""

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
    """When it first began; None of one that never did."""
    ended_at: float
    reason: str = ""
    """Why it ended as it did, for people."""
    attempts: int = 0
    seconds: float = 0.0
    """That it ran, in all attempts."""
    gpu_seconds: float = 0.0
    """That it held."""
    most_held: int = 0
    """Micro-GPUs that it held at once."""
    command: tuple[str, ...] = ()
    workdir: str = ""
    params: Params = ()
    env: tuple[tuple[str, str], ...] = ()
    """Its own environment variables: names, and digests of their values, which may be secret."""
    metrics: tuple[Metric, ...] = ()
    """By name."""
    code: str = ""
    """Digest of the code that it ran; empty where nobody read it."""
    data: str = ""
    """Digest of what its data looked like from outside; empty if it names none."""
    image: str = ""
    inputs: tuple[Artefact, ...] = ()
    """Those whose content is known."""
    outputs: tuple[Artefact, ...] = ()
    trial: Trial | None = None
    key: str = ""
    """Of everything that its outputs depend on: a stage with the same key need not run again."""
    same_as: JobId | None = None
    """The earlier run whose outputs it has taken over, because nothing had changed; it never ran itself."""
    fingerprint: str = ""
    """Of its profile."""
    profile: Run | None = None
    """What it took, as it was measured; None where it never ran."""

    def metric(self, name: str) -> Metric | None:
        return next((one for one in self.metrics if one.name == name), None)


WRITTEN = {
    ("python3", "-m", "grus.elastic.section"): "train:",
    ("python3", "-m", "grus.serving.replica"): "serve:",
    ("python3", "-m", "grus.interactive.session"): "grus dev:",
}
"""What people wrote for whom Grus runs a program of its own; its only argument stands behind."""


def words_of(argv: tuple[str, ...]) -> str:
    """A command as people wrote it."""
    if len(argv) == 4 and (written := WRITTEN.get(argv[:3])):
        return f"{written} {argv[3]}"
    return argv[2] if argv[:2] == ("/bin/sh", "-c") and len(argv) == 3 else shlex.join(argv)
