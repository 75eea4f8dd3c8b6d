"""What jobs hand on: which artefact each input is, and how a worker with inputs or outputs is started. Pure,
but for the record that is asked.

A job's artefacts are on its record with its success, and never before. An input names a job and one of its
outputs; it is resolved when the worker starts, for only then the other job has ended.
"""

import hashlib
import json
import os.path
from collections.abc import Callable
from dataclasses import dataclass

from grus.model.artefacts import Artefact, Input
from grus.model.errors import NotFound
from grus.model.identifiers import JobId, NodeId
from grus.model.jobs import Job, Spec

PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    "from grus.artefacts.stage import main; main(sys.argv[2], sys.argv[4:])"
)
"""As `python -m grus.artefacts.stage` would, without anything of the job's own environment."""


@dataclass(frozen=True, slots=True)
class Given:
    """An input, and the artefact that it is; None if nobody has it any more."""

    input: Input
    artefact: Artefact | None


@dataclass(frozen=True, slots=True)
class Stage:
    """What the program around a worker's own is told besides the job."""

    python: tuple[str, ...]
    """The interpreter and its options."""
    source: str
    """Where it finds Grus."""
    vault: str
    budget: int
    """Bytes of the cache."""
    given: tuple[Given, ...] = ()


def hands_on(spec: Spec) -> bool:
    """Whether its workers are started through the program that brings inputs and keeps outputs."""
    return bool(spec.inputs or spec.outputs)


def given(find: Callable[[JobId], Job], spec: Spec) -> tuple[Given, ...]:
    """The inputs with what they are now; `find` is the store's `job`."""
    return tuple(Given(one, _artefact(find, one)) for one in spec.inputs)


def _artefact(find: Callable[[JobId], Job], wanted: Input) -> Artefact | None:
    try:
        job = find(wanted.job)
    except NotFound:
        return None
    return next((one for one in job.artefacts if one.name == wanted.output), None)


def missing(job: Job) -> tuple[str, ...]:
    """Outputs that it has not left behind."""
    kept = {artefact.name for artefact in job.artefacts}
    return tuple(output.name for output in job.spec.outputs if output.name not in kept)


def around(
    stage: Stage, job: Job, node: NodeId, argv: tuple[str, ...], keeps: bool | None
) -> tuple[str, ...]:
    """The command that runs `argv` with the job's inputs, and keeps its outputs if it `keeps` any."""
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
    """The folder of a node in a cache: no name that somebody gave becomes a path."""
    return hashlib.sha256(node.encode()).hexdigest()[:16]
