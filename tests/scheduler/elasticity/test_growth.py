"""Idle GPUs and elastic jobs whose resize is expensive: growth that helps before the job ends happens."""

import json
from dataclasses import replace

import pytest

from grus.controlplane.speed.throughput_observations import Learning
from grus.model.identifiers import DeviceId, JobId, NodeId
from grus.model.jobs import Checkpoint, Job, Phase, Resizing, Seat
from grus.model.resources import GPU, Range
from grus.scheduler.cycle import decide
from grus.scheduler.decisions import Resize
from grus.scheduler.elasticity.throughput_outlook import Outlook
from grus.scheduler.state.snapshot import Snapshot
from tests.scheduler.builders import a_job, a_pool, a_queue
from tests.scheduler.world import World

DAY = 86_400.0
SIZES = tuple(range(2, 9))


def an_outlook(stall: float, boot: float, left: float = DAY, *, known: bool = True) -> Outlook:
    return Outlook(SIZES, tuple(size**0.9 for size in SIZES), left, stall, boot, known=known)


def others(turn: int = 0) -> list[Job]:
    return [a_job(f"x{turn}-{number}") for number in range(6)]


def squeezed(outlook: Outlook) -> World:
    """A job on 2 of 8 GPUs; the others are taken."""
    world = World("1x8").run(a_job("long", gpus="2..8"), *others())
    world.expect("long", outlook).settle()
    assert world.size("long") == 2
    return world


def freed(world: World) -> World:
    for name in world.running() - {"long"}:
        world.finish(name)
    return world.settle()


RESTARTS = [(140.0, 0.0), (200.0, 0.0), (300.0, 0.0)]
JOINS = [(1.0, 140.0), (1.0, 300.0), (1.0, 900.0)]


@pytest.mark.parametrize(("stall", "boot"), RESTARTS + JOINS)
def test_a_job_with_a_long_start_up_grows_onto_idle_gpus(stall: float, boot: float) -> None:
    world = freed(squeezed(an_outlook(stall, boot)).advance(3600))
    assert world.size("long") == 8


@pytest.mark.parametrize(("stall", "boot"), RESTARTS + JOINS)
def test_a_job_whose_end_is_unknown_grows_onto_idle_gpus(stall: float, boot: float) -> None:
    world = freed(squeezed(an_outlook(stall, boot, left=0.0, known=False)).advance(3600))
    assert world.size("long") == 8


@pytest.mark.parametrize(("stall", "boot"), RESTARTS + JOINS[1:])
def test_a_job_that_would_not_end_earlier_stays_as_it_is(stall: float, boot: float) -> None:
    """It has two minutes left: less than the restart, or than the new workers need to join."""
    world = freed(squeezed(an_outlook(stall, boot, left=120.0 * 2**0.9)).advance(3600))
    assert world.size("long") == 2


def test_a_job_ends_earlier_by_every_growth_that_is_decided() -> None:
    outlook = an_outlook(300.0, 0.0)
    for left in (100.0, 300.0, 500.0, 700.0, 1000.0, 5000.0):
        now = replace(outlook, left=left * 2**0.9)
        world = freed(squeezed(now).advance(3600))
        size = int(world.size("long"))
        time = left if size == 2 else 300.0 + now.left / size**0.9
        best = min(left, *(300.0 + now.left / n**0.9 for n in SIZES[1:]))
        assert time == pytest.approx(best)


def test_an_expensive_change_waits_until_the_last_one_is_as_long_ago_as_it_takes_to_pay() -> None:
    outlook = an_outlook(300.0, 0.0)
    world = freed(squeezed(outlook))
    begun = world["long"].team_at
    assert begun is not None
    assert world.size("long") == 2
    pays = outlook.payback(2, 3)
    assert 300.0 < pays < 1200.0
    world.advance(begun + pays - world.now - 1.0)
    assert world.size("long") == 2
    world.advance(2.0)
    assert world.size("long") == 8


def test_gpus_that_come_and_go_do_not_make_a_job_restart_again_and_again() -> None:
    world = squeezed(an_outlook(300.0, 0.0))
    before = len(world.history)
    for turn in range(1, 20):
        freed(world).advance(60.0)
        world.run(*others(turn)).advance(60.0)
    later = [action for _, action in world.history[before:] if isinstance(action, Resize)]
    assert len([action for action in later if "grew" in action.reason]) <= 2, "40 minutes, 16 to pay back"


def reported(resize: Resizing, boot: float, path: str = "") -> tuple[Job, Outlook]:
    """A job on 2 GPUs that has reported its steps for an hour, as the control plane hears it."""
    learning = Learning()
    learning.per_node = 8
    learning.type_of = {DeviceId(f"n1-{i}"): "GPU" for i in range(8)}
    job = a_job("long", gpus="2..8", resize=resize)
    seats = tuple(Seat("worker", i, NodeId("n1"), (DeviceId(f"n1-{i}"),), GPU) for i in range(2))
    spec = replace(job.spec, checkpoint=Checkpoint(path=path))
    job = replace(job, spec=spec, phase=Phase.RUNNING, attempt=1, generation=1, seats=seats, boot=boot)
    job = replace(job, started_at=0.0, first_started_at=0.0)
    found = None
    for at in range(10, 3600, 10):
        line = json.dumps({"at": float(at), "figures": {"step": at * 2.0, "total": 1e6, "batch": 64}})
        found = learning.hear(job, line, float(at)) or found
    assert found is not None
    return job, found


@pytest.mark.parametrize("boot", [140.0, 200.0, 300.0])
@pytest.mark.parametrize("resize", [Resizing.RESTART, Resizing.LIVE])
def test_what_a_job_reports_makes_it_grow_whatever_its_start_up_takes(resize: Resizing, boot: float) -> None:
    job, outlook = reported(resize, boot, path="ckpt")
    assert outlook.stall + outlook.boot == (boot if resize is Resizing.RESTART else boot + 1.0)
    snapshot = Snapshot(a_pool("1x8"), [a_queue("default", quota=8)], [job])
    snapshot.expect(JobId("long"), outlook)
    (action,) = decide(snapshot, 3600.0).actions
    assert isinstance(action, Resize)
    assert len(action.seats) > 2


def test_a_restart_that_would_lose_all_work_is_no_growth() -> None:
    job, outlook = reported(Resizing.RESTART, 140.0)
    assert outlook.stall > 3000.0
    snapshot = Snapshot(a_pool("1x8"), [a_queue("default", quota=8)], [job])
    snapshot.expect(JobId("long"), outlook)
    assert decide(snapshot, 3600.0).actions == ()


def unsaved(name: str, gpus: str = "2..8") -> Job:
    """An elastic job that restarts to change its size, and does not save."""
    job = a_job(name, gpus=gpus, resize=Resizing.AUTO)
    return replace(job, spec=replace(job.spec, checkpoint=Checkpoint()))


def test_a_job_that_would_restart_from_zero_grows_only_when_a_person_asks() -> None:
    world = World("1x8").run(unsaved("long"), *others()).advance(3600)
    freed(world)
    assert (world.size("long"), world.pauses()) == (2, [])
    world._put(replace(world["long"], size=Range(4, 4)))
    assert world.settle().size("long") == 4


def test_surplus_of_a_job_that_restarts_from_zero_is_taken_last() -> None:
    world = World("1x8").run(unsaved("unsaved", "2..5"), a_job("wide", gpus="2..3"))
    assert (world.size("unsaved"), world.size("wide")) == (5, 3)
    world.run(a_job("other"))
    assert (world.size("unsaved"), world.size("wide")) == (5, 2)
