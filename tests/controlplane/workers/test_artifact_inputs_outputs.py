"""What jobs hand on: outputs come onto the record with the success, inputs are resolved at the start."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grus.model.artifacts import Artifact, Input, Output
from grus.model.identifiers import JobId
from grus.model.jobs import Phase
from tests.controlplane.plane import ANN, Plane, a_spec

DIGEST = "ab" * 32


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    made = Plane(state=tmp_path)
    yield made
    made.close()


def submit(plane: Plane, name: str, *outputs: str, inputs: tuple[Input, ...] = (), retries: int = 0) -> JobId:
    spec = a_spec(name, outputs=tuple(Output(one) for one in outputs), inputs=inputs)
    spec = replace(spec, retries=retries, after=tuple(one.job for one in inputs))
    job = plane.services.actions.submit(ANN, spec).result()
    plane.settle()
    return job.id


def kept(*names: str) -> str:
    return json.dumps({"at": 1.0, "artefacts": [[name, DIGEST, 7] for name in names]})


def plan_of(plane: Plane, job: JobId) -> dict[str, object]:
    """What the program around the job's own was told."""
    (worker,) = [one for one in plane.engine.workers_alive.known.values() if one.spec.job == job]
    found = json.loads(worker.spec.argv[-len(plane.job(job).spec.run) - 2])
    assert isinstance(found, dict)
    return found


def test_outputs_come_onto_the_record_with_the_success_and_the_next_job_is_given_them(plane: Plane) -> None:
    first = submit(plane, "first", "data")
    second = submit(plane, "second", inputs=(Input("in", first, "data"),))
    assert plane.phase(second) is Phase.PENDING
    plane.engine.reports(first, kept("data"))
    plane.settle()
    assert plane.job(first).artefacts == ()
    plane.do(lambda: plane.engine.exit(first))
    assert plane.phase(first) is Phase.SUCCEEDED
    assert plane.job(first).artefacts == (Artifact("data", DIGEST, 7),)
    assert plane.phase(second) is Phase.RUNNING
    assert plan_of(plane, second)["inputs"] == [["in", DIGEST, f"output data of job {first}"]]


def test_a_job_whose_outputs_nobody_has_told_of_has_not_succeeded(plane: Plane) -> None:
    job = submit(plane, "job", "data", "model")
    plane.engine.reports(job, kept("data"))
    plane.do(lambda: plane.engine.exit(job))
    assert plane.phase(job) is Phase.FAILED
    assert "output model" in plane.job(job).reason
    assert plane.job(job).artefacts == ()


def test_why_a_worker_could_not_go_on_is_the_reason_of_the_failure(plane: Plane) -> None:
    job = submit(plane, "job", "data")
    plane.engine.reports(job, json.dumps({"trouble": "output data is missing: it left nothing"}))
    plane.do(lambda: plane.engine.exit(job, 73))
    assert plane.phase(job) is Phase.FAILED
    assert "output data is missing" in plane.job(job).reason


def test_what_an_attempt_that_failed_has_said_is_not_the_result_of_the_next(plane: Plane) -> None:
    job = submit(plane, "job", "data", retries=1)
    plane.engine.reports(job, kept("data"))
    plane.do(lambda: plane.engine.exit(job, 1))
    plane.after(5.0)
    assert plane.job(job).attempt == 2
    assert plane.job(job).artefacts == ()
    plane.do(lambda: plane.engine.exit(job))
    assert plane.phase(job) is Phase.FAILED


def test_a_pause_that_came_while_outputs_were_being_kept_came_too_late(plane: Plane) -> None:
    job = submit(plane, "job", "data")
    plane.engine.reports(job, kept("data"))
    plane.do(lambda: plane.services.actions.pause(ANN, job))
    assert plane.phase(job) is Phase.SUCCEEDED
    assert plane.job(job).artefacts == (Artifact("data", DIGEST, 7),)


def test_a_job_without_inputs_and_outputs_is_started_as_it_is(plane: Plane) -> None:
    job = plane.submit("plain")
    (worker,) = [one for one in plane.engine.workers_alive.known.values() if one.spec.job == job]
    assert worker.spec.argv == plane.job(job).spec.run
