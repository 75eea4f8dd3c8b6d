"""Inputs and outputs of jobs: resolve the artifact of each input, and start workers that have inputs or
outputs. Pure, except for the record that is read.

A job's artifacts are recorded together with its success, and never before. An input names a job and one of
its outputs; it is resolved when the worker starts, because only then the other job has ended.
"""

import hashlib
import json
import os.path
from collections.abc import Callable
from dataclasses import dataclass

from grus.model.artifacts import Artifact, Input
from grus.model.errors import NotFound
from grus.model.identifiers import JobId, NodeId
from grus.model.jobs import Job, Spec

PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    "from grus.artifacts.stage import main; main(sys.argv[2], sys.argv[4:])"
)
"""Equivalent of `python -m grus.artifacts.stage`, without anything of the job's own environment."""


@dataclass(frozen=True, slots=True)
class ResolvedInput:
    """Input of a job, and its artifact; None if the artifact no longer exists."""

    input: Input
    artefact: Artifact | None


@dataclass(frozen=True, slots=True)
class StagingSetup:
    """Arguments of the program that wraps a worker's own program, besides the job."""

    python: tuple[str, ...]
    """The interpreter and its options."""
    source: str
    """Path from which it imports Grus."""
    vault: str
    budget: int
    """Bytes of the cache."""
    given: tuple[ResolvedInput, ...] = ()


def hands_on(spec: Spec) -> bool:
    """Return whether its workers are started through the program that fetches inputs and keeps outputs."""
    return bool(spec.inputs or spec.outputs)


def given(find: Callable[[JobId], Job], spec: Spec) -> tuple[ResolvedInput, ...]:
    """Return the inputs with their present artifacts; `find` is the store's `job`."""
    return tuple(ResolvedInput(one, _artefact(find, one)) for one in spec.inputs)


def _artefact(find: Callable[[JobId], Job], wanted: Input) -> Artifact | None:
    try:
        job = find(wanted.job)
    except NotFound:
        return None
    return next((one for one in job.artefacts if one.name == wanted.output), None)


def missing(job: Job) -> tuple[str, ...]:
    """Return the declared outputs that it has not produced."""
    kept = {artefact.name for artefact in job.artefacts}
    return tuple(output.name for output in job.spec.outputs if output.name not in kept)


def around(
    stage: StagingSetup, job: Job, node: NodeId, argv: tuple[str, ...], keeps: bool | None
) -> tuple[str, ...]:
    """Return the command that runs `argv` with the job's inputs, and keeps its outputs if it `keeps` any."""
    plan = {
        "vault": stage.vault,
        "node": cache_name(node),
        "job": job.id,
        "budget": stage.budget,
        "keeps": keeps,
        "inputs": [
            [
                one.input.name,
                one.artefact.digest if one.artefact else "",
                f"output {one.input.output} of job {one.input.job}",
            ]
            for one in stage.given
        ],
        "outputs": [
            [output.name, output.path and os.path.join(job.spec.workdir, output.path)]
            for output in job.spec.outputs
        ],
    }
    return (*stage.python, "-c", PROGRAM, stage.source, json.dumps(plan), "--", *argv)


def cache_name(node: NodeId) -> str:
    """Return the folder of a node in a cache: no user-given name becomes a path."""
    return hashlib.sha256(node.encode()).hexdigest()[:16]
