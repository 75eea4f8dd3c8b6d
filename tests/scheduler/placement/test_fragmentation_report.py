"""Free GPUs are stranded if nobody who waits could use any of them as they lie, though there is enough."""

from dataclasses import replace

import pytest

from grus.model.identifiers import DeviceId, NodeId
from grus.model.jobs import Job, Phase, Seat
from grus.model.resources import GPU
from grus.scheduler.placement.fragmentation_report import stranded
from grus.scheduler.state.snapshot import Snapshot
from tests.scheduler.builders import a_job, a_pool, a_queue


def a_snapshot(pool: str, *jobs: Job) -> Snapshot:
    found = Snapshot(a_pool(pool), [a_queue("default", quota=64)], jobs)
    found.advance(1000.0)
    return found


def on(node: str, name: str, share: float = 1) -> Job:
    """A job that runs on the first GPU of a node, or on a part of it."""
    seat = Seat("worker", 0, NodeId(node), (DeviceId(f"{node}-0"),), round(share * GPU))
    return replace(a_job(name, gpus=share), phase=Phase.RUNNING, attempt=1, generation=1, seats=(seat,))


def test_without_anybody_in_line_nothing_is_stranded() -> None:
    assert stranded(a_snapshot("2x2")) == 0


@pytest.mark.parametrize(("gpus", "lost"), [(1, 0), (2, 2), (3, 0)])
def test_gpus_on_two_nodes_are_stranded_for_who_needs_them_on_one(gpus: int, lost: int) -> None:
    """Each node has a free one: a job for one can use both, one for two none, one for three has too few."""
    runs = [on(f"n{n}", f"r{n}") for n in (1, 2)]
    waits = a_job("waits", gpus=gpus, one_node=True)
    assert stranded(a_snapshot("2x2", *runs, waits)) == lost * GPU


def test_what_is_left_of_a_shared_gpu_is_stranded_for_whole_ones() -> None:
    runs = [on(f"n{n}", f"r{n}", 0.5) for n in (1, 2)]
    assert stranded(a_snapshot("2x1", *runs, a_job("whole", gpus=1))) == GPU
    half = a_job("half", gpus=0.5)
    assert stranded(a_snapshot("2x1", *runs, a_job("whole", gpus=1), half)) == 0
