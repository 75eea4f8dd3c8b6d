"""Jobs leave a drained node if they lose nothing by it; others run to their end; nothing starts there."""

from dataclasses import replace

from grus.model.identifiers import NodeId
from grus.model.jobs import Checkpoint, Job, Phase
from grus.model.nodes import Drain
from grus.scheduler.decisions import Pause, Resize
from tests.scheduler.builders import a_job
from tests.scheduler.world import World

DRAIN = Drain(message="new disks until 15:00")


def losing(job: Job) -> Job:
    """The job without a checkpoint: a pause loses its work."""
    return replace(job, spec=replace(job.spec, checkpoint=Checkpoint()))


def drained(world: World, node: str, drain: Drain | None = DRAIN) -> World:
    nodes = [
        replace(one, cordoned=drain is not None, drain=drain) if one.id == NodeId(node) else one
        for one in world.nodes
    ]
    return world.set_nodes(nodes)


def nodes_of(world: World, name: str) -> set[str]:
    return {seat.node for seat in world[name].staying}


def two_jobs() -> tuple[World, str, str]:
    """A world of two nodes, with a job that saves on `one` and another job on the `other`."""
    world = World("2x2").run(a_job("a", gpus=2), losing(a_job("b", gpus=1)))
    [one], [other] = nodes_of(world, "a"), nodes_of(world, "b")
    return world, one, other


def test_a_job_that_saves_is_paused_and_starts_on_another_node() -> None:
    world = World("2x2").run(a_job("a", gpus=2))
    [one] = nodes_of(world, "a")
    drained(world, one).settle()
    assert world["a"].phase is Phase.RUNNING
    assert nodes_of(world, "a") == {"n1", "n2"} - {one}
    [pause] = [action for _, action in world.history if isinstance(action, Pause)]
    assert pause.reason == f"node {one} is being drained: new disks until 15:00"


def test_without_room_elsewhere_it_waits_and_returns_when_the_drain_ends() -> None:
    world, one, _ = two_jobs()
    drained(world, one).settle()
    assert world["a"].phase is Phase.PAUSED
    drained(world, one, None).settle()
    assert nodes_of(world, "a") == {one}


def test_jobs_that_do_not_save_and_non_preemptible_ones_run_to_their_end() -> None:
    world, _, other = two_jobs()
    world.run(a_job("never", priority=100))
    assert nodes_of(world, "never") == nodes_of(world, "b") == {other}
    drained(world, other).settle().advance(3600)
    assert world.running() == {"a", "b", "never"}
    world.finish("b").run(a_job("c"))
    assert world.waiting() == {"c"}


def test_an_elastic_job_gives_back_its_seats_there_and_keeps_the_others() -> None:
    world = World("2x2").run(a_job("a", gpus="1..4"))
    assert world.size("a") == 4
    drained(world, "n1").settle()
    assert (world.size("a"), nodes_of(world, "a")) == (2, {"n2"})
    assert not [action for _, action in world.history if isinstance(action, Pause)]
    [resize] = [
        one for _, one in world.history if isinstance(one, Resize) and any(s.leaving for s in one.seats)
    ]
    assert resize.reason == "gave back its seats there: node n1 is being drained: new disks until 15:00"


def test_a_drained_node_without_a_message_says_so_plainly() -> None:
    world = World("2x1").run(a_job("a"))
    [one] = nodes_of(world, "a")
    drained(world, one, Drain()).settle()
    [pause] = [action for _, action in world.history if isinstance(action, Pause)]
    assert pause.reason == f"node {one} is being drained"
