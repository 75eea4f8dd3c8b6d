"""Slices and whole GPUs go where the usual mix of jobs loses least."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from grus.model.jobs import Job
from grus.model.nodes import Node
from grus.model.resources import GPU
from grus.scheduler.cycle import decide
from grus.scheduler.decisions import Start
from grus.scheduler.placement.fractional_gpus import best_device
from grus.scheduler.placement.fragmentation import Mix
from grus.scheduler.state.node_capacity_index import NOW, DeviceState, Pool
from grus.scheduler.state.snapshot import Snapshot
from tests.scheduler.builders import a_job, a_pool, a_queue, a_role
from tests.scheduler.world import World

GB = 1_000_000_000


def with_hosts(pool: str, *cores: int) -> tuple[Node, ...]:
    """The pool, its nodes with so many cores each."""
    return tuple(replace(node, cpu=n * 1000) for node, n in zip(a_pool(pool), cores, strict=True))


def a_hungry(name: str, gpus: float, cores: int) -> Job:
    """A job with one replica that asks for host CPU."""
    return a_job(name, roles=[a_role("worker", 1, gpus, cpu=cores * 1000)], one_node=True)


def a_snapshot(nodes: Sequence[Node], *jobs: Job) -> Snapshot:
    return Snapshot(nodes, [a_queue("default", quota=64)], jobs)


# --------------------------------------------------------------------------------------------- slices


def test_a_slice_leaves_the_gap_that_the_usual_jobs_fit_into() -> None:
    """Halves are usual: 0.3 opens a GPU, on which another half fits, instead of leaving 0.2 for nobody."""
    world = World("1x3").run(*[a_job(f"half-{i}", gpus=0.5) for i in range(3)])
    world.run(a_job("odd", gpus=0.3))
    assert world.devices_of("odd").isdisjoint(world.devices_of("half-2"))
    world.run(*[a_job(f"half-{i}", gpus=0.5) for i in range(3, 5)])
    assert len(world.running()) == 6


def test_where_whole_gpus_are_usual_the_same_slice_opens_none() -> None:
    world = World("1x8").run(a_job("half", gpus=0.5), *[a_job(f"whole-{i}") for i in range(4)])
    world.run(a_job("odd", gpus=0.3))
    assert world.devices_of("odd") == world.devices_of("half")


def test_a_slice_does_not_break_the_node_that_a_gang_needs() -> None:
    """Two nodes have unused GPUs; one of them just enough for the gangs of four that are usual."""
    world = World("1x4+1x8")
    for i in range(3):
        world.run(a_job(f"gang-{i}", gpus=4, one_node=True))
    world.finish("gang-0").finish("gang-2").settle()
    on_large = world["gang-1"].seats[0].node == "n2"
    world.run(a_job("single", gpus=1), a_job("slice", gpus=0.5), a_job("gang-3", gpus=4, one_node=True))
    assert on_large
    assert {"slice", "single", "gang-1", "gang-3"} == world.running()


def test_nothing_known_is_best_fit() -> None:
    """Without a mix the fullest device that has room is taken, and a whole one only if none has."""
    snapshot = a_snapshot(a_pool("1x3"))
    pool = snapshot.pool
    part = snapshot.compile(a_job("s", gpus=0.3)).parts[0]
    for device, free in zip(pool.devices, (0.5, 0.4, 1.0), strict=True):
        pool.shift(device, round(free * GPU) - GPU, NOW)
    found = best_device(pool, Mix(pool), part, pool.open_nodes, NOW)
    assert found is not None
    assert found[0].id == "n1-1"


@pytest.mark.parametrize("seed", range(40))
def test_no_other_device_would_lose_the_mix_less(seed: int) -> None:
    """Against the definition, asked of every device."""
    chance = random.Random(seed)
    asks = (0.1, 0.2, 0.25, 0.3, 0.5, 0.7, 0.8)
    jobs = [a_job(f"s{i}", gpus=chance.choice(asks)) for i in range(chance.randint(1, 8))]
    jobs += [
        a_job(f"w{i}", gpus=chance.choice((1, 2, 4)), one_node=True) for i in range(chance.randint(0, 6))
    ]
    snapshot = a_snapshot(a_pool("2x4+3x2"), *jobs)
    pool = snapshot.pool
    for device in pool.devices:
        used = chance.choice((0.0, 0.0, 0.2, 0.3, 0.5, 0.75, 1.0))
        pool.shift(device, -round(used * GPU), NOW)
    part = snapshot.compile(jobs[0]).parts[0]
    found = best_device(pool, snapshot.mix, part, pool.open_nodes, NOW)
    room = [device for device in pool.devices if device.free[NOW] >= part.share]
    if found is None:
        assert not room
    else:
        costs = {device.id: _growth(pool, jobs, device, part.share) for device in room}
        assert costs[found[0].id] == min(costs.values())


def _growth(pool: Pool, jobs: Sequence[Job], device: DeviceState, share: int) -> int:
    before = _lost(pool, jobs)
    device.free[NOW] -= share
    after = _lost(pool, jobs)
    device.free[NOW] += share
    return after - before


def _lost(pool: Pool, jobs: Sequence[Job]) -> int:
    """Free GPU that a job cannot use, summed over the jobs: the rests that are too small for its replica, and
    the whole GPUs of nodes with fewer than its gang needs."""
    lost = 0
    for job in jobs:
        role = job.spec.request.roles[0]
        gang = role.replicas.low if role.replica.gpus else 0
        for node in pool.nodes:
            free = [device.free[NOW] for device in node.devices]
            whole = free.count(GPU)
            lost += whole * GPU if whole < gang else 0
            lost += sum(f for f in free if f < (GPU if gang else role.replica.share))
    return lost


# ---------------------------------------------------------------------------------------------- hosts


def test_a_job_that_needs_much_cpu_goes_where_it_strands_no_gpu() -> None:
    """Equal GPUs, but on the first node the CPU left would not do for the jobs that are usual."""
    world = World(with_hosts("2x2", 8, 32))
    world.run(a_hungry("big", 1, 7), a_hungry("a", 1, 4), a_hungry("b", 1, 4), a_hungry("c", 1, 4))
    assert world["big"].seats[0].node == "n2"
    assert world.running() == {"big", "a", "b", "c"}


def test_slices_go_where_the_host_has_cpu_to_spare() -> None:
    world = World(with_hosts("2x1", 4, 16)).run(a_hungry("first", 0.5, 3), a_hungry("second", 0.5, 3))
    assert {world[name].seats[0].node for name in ("first", "second")} == {"n2"}


def test_a_host_without_room_is_never_chosen() -> None:
    world = World(with_hosts("2x1", 2, 4)).run(a_hungry("x", 0.5, 4), a_hungry("y", 0.5, 4))
    assert world["x"].seats[0].node == "n2"
    assert world.waiting() == {"y"}


# ------------------------------------------------------------------------------------- what is kept


def test_the_mix_is_what_runs_or_waits_whatever_came_before() -> None:
    """The same jobs in another order, after others that have gone, give the same answers."""
    jobs = [
        a_job("s", gpus=0.3),
        a_job("t", gpus=0.5),
        a_job("m", gpus="4GB"),
        a_job("w"),
        a_job("g", gpus=2),
    ]
    there = a_snapshot(a_pool("1x4"), *jobs).mix.weights(0)
    world = World("1x4").run(a_job("gone", gpus=0.9)).finish("gone")
    world.submit(*reversed(jobs))
    here = world.snapshot.mix.weights(0)
    for free in range(0, GPU, GPU // 20):
        assert here.rest(free) == there.rest(free)
    assert [here.gangs(n) for n in range(5)] == [there.gangs(n) for n in range(5)]
    assert (here.number, here.gpu) == (there.number, there.gpu)


def test_without_slices_and_hosts_the_mix_is_never_worked_out() -> None:
    """Pools of whole GPUs pay nothing for it."""
    snapshot = a_snapshot(a_pool("2x4"), a_job("x", gpus=2), a_job("y", gpus="1..4"))
    decisions = decide(snapshot, 1.0)
    assert [type(action) for action in decisions.actions] == [Start, Start]
    assert not snapshot.mix.kept_weights
