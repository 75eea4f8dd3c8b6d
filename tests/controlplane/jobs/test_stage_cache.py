"""What stands for a stage, what does not, and that nothing is lost while it is compared."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grus.api.inputs.yaml_job_file import parse_job_file
from grus.controlplane.fingerprint import fingerprints
from grus.controlplane.jobs import stage_cache
from grus.controlplane.jobs.stage_cache import Skipping, key_of, uncompared
from grus.model.artifacts import Artifact
from grus.model.errors import StoreFailed
from grus.model.identifiers import JobId, NodeId
from grus.model.jobs import HOLDING, Job, JobType, Phase
from tests.controlplane.plane import ANN, Plane

TEXT = """
resources: {gpu: 1}
stages:
  a: {run: python a.py, outputs: [d]}
  b: {run: python b.py, inputs: {d: a.d}}
"""


class World:
    """A control plane that compares stages when the test says so."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "a.py").write_text("print(1)\n")
        (folder / "b.py").write_text("print(2)\n")
        self.plane = Plane(compares=True)
        self.gone: set[str] = set()
        self.touched_at = self.plane.now - 3600
        """When the code was last touched."""
        self.begin()

    def begin(self) -> None:
        self.skipping = Skipping(
            self.plane.store,
            holds=lambda _, artefact: artefact.digest not in self.gone,
            near=lambda job: (NodeId("n1"),) if job.spec.inputs else (),
            epoch=lambda: self.plane.loop.pulse.epoch,
            clock=lambda: self.plane.now,
        )
        self.plane.compare = self.skipping.ask

    def submit(self, text: str = TEXT, *, fresh: bool = False) -> dict[str, JobId]:
        jobs = parse_job_file(text, folder=str(self.folder))
        made = self.plane.services.workflows.submit(ANN, jobs, fresh=fresh)
        self.plane.settle()
        return {job.spec.name: job.id for job in made}

    def compare(self) -> None:
        """All that was asked for by now."""
        for _ in range(4):
            self.skipping.step()
        self.plane.settle()

    def finish(self, job: JobId, digest: str = "D1") -> None:
        """Its program ends well, and its output is kept."""
        stored = self.plane.job(job)
        kept = tuple(Artifact(output.name, digest, 10) for output in stored.spec.outputs)
        self.plane.store.replace(replace(stored, artefacts=kept), None, None).result()
        self.plane.settle()
        self.plane.engine.finish(job)
        self.plane.settle()
        assert self.plane.phase(job) is Phase.SUCCEEDED

    def ran(self) -> JobId:
        """One submission, of which the first stage has run."""
        jobs = self.submit()
        self.compare()
        self.finish(jobs["a"])
        return jobs["a"]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path)
    # The plane lives in a time of its own, and so do its files.
    monkeypatch.setattr(fingerprints, "_changed", lambda _: made.touched_at)
    yield made
    made.plane.close()


def test_a_stage_is_held_back_until_it_was_compared(world: World) -> None:
    jobs = world.submit()
    assert world.plane.phase(jobs["a"]) is Phase.PENDING
    assert "compared with earlier runs" in world.plane.services.jobs.why(ANN, jobs["a"]).sentence
    world.compare()
    assert world.plane.phase(jobs["a"]) is Phase.RUNNING
    assert world.plane.job(jobs["a"]).key


def test_an_unchanged_stage_succeeds_at_once_with_the_outputs_of_the_earlier_run(world: World) -> None:
    first = world.ran()
    jobs = world.submit()
    world.compare()
    stage = world.plane.job(jobs["a"])
    assert (stage.phase, stage.same_as, stage.attempt) == (Phase.SUCCEEDED, first, 0)
    assert stage.artefacts == world.plane.job(first).artefacts
    assert first in stage.reason
    assert world.plane.engine.alive(jobs["a"]) == []
    world.compare()  # the next one, which leaves nothing, runs
    assert world.plane.phase(jobs["b"]) is Phase.RUNNING


def test_a_stage_knows_which_nodes_have_its_data(world: World) -> None:
    world.ran()
    jobs = world.submit()
    world.compare()
    world.compare()
    assert world.plane.job(jobs["b"]).near == ("n1",)


@pytest.mark.parametrize(
    "change",
    ["python a.py --lr 1", "python a.py\n    env: {SEED: 1}", "python a.py\n    setup: echo"],
)
def test_another_command_variable_or_setup_is_other_work(world: World, change: str) -> None:
    world.ran()
    text = TEXT.replace("  a: {run: python a.py, outputs: [d]}", f"  a:\n    run: {change}\n    outputs: [d]")
    jobs = world.submit(text)
    world.compare()
    assert world.plane.phase(jobs["a"]) in HOLDING


def test_another_size_name_or_priority_is_the_same_work(world: World) -> None:
    world.ran()
    text = TEXT.replace("resources: {gpu: 1}", "priority: 10\nresources: {gpu: 2, cpu: 1}")
    jobs = world.submit(text.replace("  a: ", "  other: ").replace("a.d", "other.d"))
    world.compare()
    assert world.plane.phase(jobs["other"]) is Phase.SUCCEEDED


def test_outputs_that_are_gone_are_made_again(world: World) -> None:
    world.ran()
    world.gone.add("D1")
    jobs = world.submit()
    world.compare()
    assert world.plane.phase(jobs["a"]) is Phase.RUNNING


def test_a_run_that_did_not_succeed_stands_for_nothing(world: World) -> None:
    jobs = world.submit()
    world.compare()
    world.plane.engine.exit(jobs["a"], 1)
    world.plane.settle()
    again = world.submit()
    world.compare()
    assert world.plane.phase(again["a"]) is Phase.RUNNING


def test_fresh_runs_what_has_not_changed(world: World) -> None:
    world.ran()
    jobs = world.submit(fresh=True)
    world.compare()
    assert world.plane.phase(jobs["a"]) is Phase.RUNNING


def test_a_stage_that_is_given_something_else_runs(world: World) -> None:
    text = TEXT.replace("inputs: {d: a.d}", "inputs: {d: a.d}, outputs: [e]")
    first = world.submit(text)
    world.compare()
    world.finish(first["a"])
    world.compare()
    world.finish(first["b"], "E1")
    for digest, phase in (("D1", Phase.SUCCEEDED), ("D2", Phase.RUNNING)):
        jobs = world.submit(text, fresh=False)
        job = world.plane.job(jobs["a"])
        kept = (Artifact("d", digest, 10),)
        done = replace(job, key="x", phase=Phase.SUCCEEDED, artefacts=kept, ended_at=world.plane.now)
        world.plane.store.replace(done, None, None).result()
        world.plane.settle()
        world.compare()
        world.compare()
        assert world.plane.phase(jobs["b"]) is phase


def test_code_that_was_touched_while_it_waited_is_not_taken_for_what_ran(world: World) -> None:
    """Nobody has read what ran: the times of the files are all that can be asked."""
    world.ran()
    world.touched_at = world.plane.now + 10
    jobs = world.submit()
    world.compare()
    assert world.plane.phase(jobs["a"]) is Phase.RUNNING


def test_a_stage_that_is_paused_while_it_waits_is_compared_when_it_is_resumed(world: World) -> None:
    world.ran()
    jobs = world.submit()
    world.plane.do(lambda: world.plane.services.actions.pause(ANN, jobs["a"]))
    world.compare()
    assert world.plane.phase(jobs["a"]) is Phase.PAUSED
    world.plane.do(lambda: world.plane.services.actions.resume(ANN, jobs["a"]))
    world.compare()
    assert world.plane.phase(jobs["a"]) is Phase.SUCCEEDED


def test_a_control_plane_that_dies_in_between_is_followed_by_one_that_compares(world: World) -> None:
    first = world.ran()
    jobs = world.submit()
    world.begin()  # what was asked is forgotten
    world.plane.restart()
    world.plane.settle()
    world.compare()
    assert world.plane.job(jobs["a"]).same_as == first


def test_trouble_with_the_store_only_delays_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.ran()
    jobs = world.submit()
    monkeypatch.setattr(stage_cache, "PAUSE", 0.0)
    real = world.plane.store.find

    def fails(*_: object, **__: object) -> None:
        raise StoreFailed("the disk is full")

    monkeypatch.setattr(world.plane.store, "find", fails)
    world.compare()
    assert world.plane.phase(jobs["a"]) is Phase.PENDING
    monkeypatch.setattr(world.plane.store, "find", real)
    world.compare()
    assert world.plane.phase(jobs["a"]) is Phase.SUCCEEDED


def a_stage(world: World) -> Job:
    return world.plane.job(world.submit()["a"])


def test_the_key_is_of_what_the_outputs_depend_on(world: World) -> None:
    job = a_stage(world)
    key = key_of(job, "code", "data", [("d", "1")])
    assert key == key_of(replace(job, id=JobId("j2")), "code", "data", [("d", "1")])
    others = [
        key_of(job, "other", "data", [("d", "1")]),
        key_of(job, "code", "other", [("d", "1")]),
        key_of(job, "code", "data", [("d", "2")]),
        key_of(job, "code", "data", [("e", "1")]),
        key_of(replace(job, files="other"), "code", "data", [("d", "1")]),
        key_of(replace(job, spec=replace(job.spec, params=(("lr", 1),))), "code", "data", [("d", "1")]),
    ]
    assert len({key, *others}) == 7


def test_only_waiting_stages_of_a_graph_are_compared(world: World) -> None:
    job = a_stage(world)
    assert uncompared(job)
    for changed in (
        replace(job, key="known"),
        replace(job, attempt=1),
        replace(job, phase=Phase.PAUSED),
        replace(job, spec=replace(job.spec, graph=None)),
        replace(job, spec=replace(job.spec, outputs=(), inputs=())),
    ):
        assert not uncompared(changed)
    assert uncompared(replace(job, spec=replace(job.spec, type=JobType.SERVE)))
