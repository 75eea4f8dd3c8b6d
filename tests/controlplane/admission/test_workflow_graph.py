"""Jobs that are submitted together: all or none, found again from any of them, tried again from one."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.yaml_job_file import parse_job_file
from grus.model.artifacts import Artifact
from grus.model.errors import BadInput, Conflict, DoesNotFit, NotAllowed, NotFound
from grus.model.identifiers import JobId, UserName
from grus.model.interfaces import USERS, NewJob, User
from grus.model.jobs import Job, Phase
from tests.controlplane.plane import ADMIN, ANN, Plane, a_spec
from tests.scheduler.builders import a_queue

BEN = User(name=UserName("ben"))
CHAIN = """
resources: {gpu: 1}
stages:
  a: {run: x}
  b: {run: x, after: [a]}
  c: {run: x, after: [b]}
  side: {run: x, after: [a]}
"""


@pytest.fixture
def plane() -> Iterator[Plane]:
    made = Plane(replace(a_queue("closed", quota=1), members=(BEN.name,)))
    made.store.put(USERS, BEN)
    yield made
    made.close()


def stages(text: str, folder: Path | str = "/nowhere") -> list[JobIn]:
    return parse_job_file(text, folder=str(folder))


def submit(plane: Plane, text: str, key: str | None = None) -> dict[str, JobId]:
    made = plane.services.workflows.submit(ANN, stages(text), key=key)
    plane.settle()
    return named(made)


def named(jobs: Sequence[Job]) -> dict[str, JobId]:
    return {job.spec.name: job.id for job in jobs}


def phases(plane: Plane, jobs: dict[str, JobId]) -> dict[str, str]:
    return {name: plane.phase(id_).value for name, id_ in jobs.items()}


def test_jobs_of_one_submission_know_each_other_by_their_ids(plane: Plane) -> None:
    jobs = submit(plane, CHAIN)
    assert plane.job(jobs["b"]).spec.after == (jobs["a"],)
    assert {plane.job(id_).spec.graph for id_ in jobs.values()} == {jobs["a"]}
    assert phases(plane, jobs) == {"a": "running", "b": "pending", "c": "pending", "side": "pending"}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("stages:\n  a: {run: x}\n  b: {run: x, queue: none}\n", "b.queue"),
        ("stages:\n  a: {run: x}\n  b: {run: x, after: [j0123456789]}\n", "b.after[0]"),
        ("stages:\n  a: {run: x}\n  b: {run: x, inputs: {d: j0123456789.d}}\n", "b.inputs.d"),
        ("stages:\n  a: {run: x}\n  b: {run: x, image: some}\n", "b.image"),
    ],
)
def test_what_is_wrong_with_one_keeps_all_from_being_stored(plane: Plane, text: str, field: str) -> None:
    with pytest.raises(BadInput) as caught:
        submit(plane, text)
    assert [mistake.field for mistake in caught.value.mistakes] == [field]
    assert plane.store.jobs() == []


def test_a_stage_that_can_never_fit_keeps_all_from_being_stored(plane: Plane) -> None:
    with pytest.raises(DoesNotFit, match="b: "):
        submit(plane, "stages:\n  a: {run: x}\n  b: {run: x, resources: {gpu: 64}}\n")
    assert plane.store.jobs() == []


def test_an_output_that_an_earlier_stage_does_not_leave_is_refused_by_the_server_too(plane: Plane) -> None:
    jobs = stages("stages:\n  a: {run: x, outputs: [d]}\n  b: {run: x, inputs: {d: a.d}}\n")
    jobs[1] = jobs[1].model_copy(update={"inputs": {"d": "a.e"}})
    with pytest.raises(BadInput, match=r"b\.inputs\.d.*it leaves d"):
        plane.services.workflows.submit(ANN, jobs)
    jobs[1] = jobs[1].model_copy(update={"inputs": {"d": "later.e"}})
    with pytest.raises(BadInput, match=r"b\.inputs\.d"):
        plane.services.workflows.submit(ANN, jobs)


def test_nobody_submits_to_a_queue_of_others(plane: Plane) -> None:
    with pytest.raises(NotAllowed):
        submit(plane, "queue: closed\n" + CHAIN)


def test_a_submission_that_is_repeated_with_its_key_finds_its_jobs(plane: Plane) -> None:
    first = submit(plane, CHAIN, key="k")
    plane.after(5)
    assert submit(plane, CHAIN, key="k") == first
    assert len(plane.store.jobs()) == 4
    with pytest.raises(Conflict):
        submit(plane, CHAIN.replace("run: x, after: [b]", "run: y, after: [b]"), key="k")


def test_a_submission_that_is_refused_when_it_is_written_leaves_nothing(plane: Plane) -> None:
    other = plane.services.actions.submit(ANN, a_spec("other"), key="k-2").result()
    with pytest.raises(Conflict, match="k-2"):
        submit(plane, CHAIN, key="k")
    assert plane.store.jobs() == [other]


def test_a_submission_that_broke_off_is_completed_by_its_repetition(plane: Plane) -> None:
    """As a server before the one write could leave it: the first two are there."""
    real = plane.store.create_all
    written: list[NewJob] = []

    def breaks_off(new: Sequence[NewJob]) -> "Future[list[Job]]":
        written.extend(new[:2])
        real(new[:2])
        raise OSError("the disk is gone")

    plane.store.create_all = breaks_off  # type: ignore[assignment,method-assign]  # trouble on purpose
    with pytest.raises(OSError, match="the disk is gone"):
        submit(plane, CHAIN, key="k")
    plane.store.create_all = real  # type: ignore[method-assign]  # as it was
    plane.after(60)
    jobs = submit(plane, CHAIN, key="k")
    assert list(jobs.values())[:2] == [one.job.id for one in written]
    graph = plane.services.graphs.of(ANN, jobs["c"])
    assert [stage.job.spec.name for stage in graph.stages] == ["a", "b", "c", "side"]


def test_the_graph_is_found_from_any_of_its_jobs_among_many_others(plane: Plane) -> None:
    for _ in range(3):
        plane.submit("before")
    jobs = submit(plane, CHAIN)
    submit(plane, CHAIN)
    for name in jobs:
        graph = plane.services.graphs.of(ANN, jobs[name])
        assert graph.id == jobs["a"]
        depths = {stage.job.spec.name: stage.depth for stage in graph.stages}
        assert depths == {"a": 0, "b": 1, "c": 2, "side": 1}
        assert {stage.job.id for stage in graph.stages} == set(jobs.values())
        assert graph.stages[1].after == (jobs["a"],)


def test_a_job_submitted_alone_is_a_graph_of_one(plane: Plane) -> None:
    job = plane.submit("alone")
    (stage,) = plane.services.graphs.of(ANN, job).stages
    assert (stage.job.id, stage.after, stage.earlier) == (job, (), False)


def test_a_graph_that_one_may_not_see_does_not_exist(plane: Plane) -> None:
    made = plane.services.workflows.submit(BEN, stages("queue: closed\n" + CHAIN))
    with pytest.raises(NotFound):
        plane.services.graphs.of(ANN, made[0].id)
    assert len(plane.services.graphs.of(ADMIN, made[0].id).stages) == 4


# ------------------------------------------------------------------------------------------------ again


def failed_at_b(plane: Plane) -> dict[str, JobId]:
    jobs = submit(plane, CHAIN)
    plane.engine.finish(jobs["a"])
    plane.settle()
    plane.engine.finish(jobs["side"])
    plane.engine.exit(jobs["b"], 1)
    plane.settle()
    assert phases(plane, jobs) == {"a": "succeeded", "b": "failed", "c": "failed", "side": "succeeded"}
    return jobs


def test_a_retry_repeats_what_failed_and_what_comes_after_it_and_nothing_else(plane: Plane) -> None:
    old = failed_at_b(plane)
    new = named(plane.services.workflows.retry(ANN, old["b"]))
    plane.settle()
    assert list(new) == ["b", "c"]
    assert plane.job(new["b"]).spec.after == (old["a"],)
    assert plane.job(new["c"]).spec.after == (new["b"],)
    assert phases(plane, new) == {"b": "running", "c": "pending"}
    plane.engine.finish(new["b"])
    plane.settle()
    assert plane.phase(new["c"]) is Phase.RUNNING


def test_the_graph_of_a_retry_shows_what_it_builds_on(plane: Plane) -> None:
    old = failed_at_b(plane)
    new = named(plane.services.workflows.retry(ANN, old["b"]))
    graph = plane.services.graphs.of(ANN, new["c"])
    shown = [(stage.job.spec.name, stage.earlier, stage.depth) for stage in graph.stages]
    assert shown == [("a", True, 0), ("b", False, 1), ("c", False, 2)]


def test_a_retry_repeats_also_what_failed_beside_it_and_is_needed(plane: Plane) -> None:
    text = "stages:\n  a: {run: x}\n  b: {run: x}\n  c: {run: x, after: [a, b]}\n  d: {run: x}\n"
    jobs = submit(plane, text)
    for name in ("a", "b", "d"):
        plane.engine.exit(jobs[name], 1)
        plane.settle()
    assert list(named(plane.services.workflows.retry(ANN, jobs["a"]))) == ["a", "b", "c"]


def test_a_retry_of_a_retry_repeats_what_is_no_longer_there_of_an_earlier_submission(
    plane: Plane,
) -> None:
    old = failed_at_b(plane)
    new = named(plane.services.workflows.retry(ANN, old["b"]))
    plane.settle()
    plane.engine.exit(new["b"], 1)
    plane.settle()
    gone = plane.job(old["a"])
    kept = replace(gone, artefacts=(Artifact("d", "0" * 64, 1),))  # which nobody has
    plane.store.replace(kept, None, None).result()
    assert list(named(plane.services.workflows.retry(ANN, new["b"]))) == ["a", "b", "c"]


def test_a_retry_with_the_same_key_is_the_same_retry(plane: Plane) -> None:
    old = failed_at_b(plane)
    first = plane.services.workflows.retry(ANN, old["b"], key="k")
    assert named(plane.services.workflows.retry(ANN, old["b"], key="k")) == named(first)


def test_a_retry_goes_on_from_its_checkpoints_unless_it_is_given_other_data(
    plane: Plane, tmp_path: Path
) -> None:
    text = (
        "checkpoint: {path: ckpt}\nstages:\n  a: {run: x, outputs: [d]}\n"
        "  b: {run: x, inputs: {d: a.d}, outputs: [e]}\n"
    )
    made = named(plane.services.workflows.submit(ANN, stages(text, tmp_path)))
    plane.settle()
    for name in ("a", "b"):
        job = plane.job(made[name])
        plane.store.replace(replace(job, saves_as=f"of-{name}"), None, None).result()
    plane.do(lambda: plane.services.actions.stop(ANN, made["a"]))
    again = {job.spec.name: job.saves_as for job in plane.services.workflows.retry(ANN, made["a"])}
    assert again == {"a": "of-a", "b": ""}


def test_a_job_alone_can_be_tried_again(plane: Plane) -> None:
    job = plane.submit("alone")
    plane.engine.exit(job, 1)
    plane.settle()
    (again,) = plane.services.workflows.retry(ANN, job)
    assert again.id != job
    assert again.spec.run == plane.job(job).spec.run


def test_only_what_has_ended_badly_is_tried_again_and_only_by_its_owner(plane: Plane) -> None:
    old = failed_at_b(plane)
    with pytest.raises(Conflict, match="has succeeded"):
        plane.services.workflows.retry(ANN, old["a"])
    with pytest.raises(NotAllowed, match="belongs to ann"):
        plane.services.workflows.retry(ADMIN, old["b"])
    with pytest.raises(Conflict, match="is running"):
        plane.services.workflows.retry(ANN, plane.submit("runs"))


def test_a_retry_waits_for_stages_that_have_not_ended(plane: Plane) -> None:
    text = "stages:\n  a: {run: x}\n  tell: {run: x, after: [a], when: always}\n"
    jobs = submit(plane, text)
    plane.engine.exit(jobs["a"], 1)
    plane.settle()
    with pytest.raises(Conflict, match=r"tell .* has not ended yet"):
        plane.services.workflows.retry(ANN, jobs["a"])
