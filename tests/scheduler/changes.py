"""Asking why a job waits, and doing what the answer says, to see whether it is true."""

from dataclasses import replace

from grus.model.identifiers import JobId
from grus.model.queues import Quota, check_tree
from grus.model.resources import GPU
from grus.scheduler.cycle import decide
from grus.scheduler.explain import Explanation, UnblockingChange, explain
from tests.scheduler import reference
from tests.scheduler.world import World


def why(world: World, name: str) -> Explanation:
    """The explanation; asking must change nothing that is decided, nor what is answered the next time."""
    before = repr(decide(world.snapshot, world.now))
    found = explain(world.snapshot, JobId(name), world.now)
    assert repr(decide(world.snapshot, world.now)) == before, "explain changed its snapshot"
    assert explain(world.snapshot, JobId(name), world.now) == found, "asked again, another answer"
    return found


def apply(world: World, name: str, change: UnblockingChange) -> None:
    """Do what the explanation says, as a person would; it must be something that the server accepts."""
    pool = sum(GPU for node in world.nodes for _ in node.devices)
    known = check_tree(world.queues, pool)
    if change.request is not None:
        world.ask_instead(name, request=change.request)
    if change.priority is not None:
        world.ask_instead(name, priority=change.priority)
    for job in change.stop:
        world.stop(job)
    if change.quota is not None:
        leaf, amount = change.quota
        for queue in reference.chain(world.facts(), leaf):
            if queue.quota.total < amount:
                world.set_queue(replace(queue, quota=Quota.of(amount / GPU)))
    if change.limit is not None:
        queue = next(queue for queue in world.queues if queue.name == change.limit[0])
        world.set_queue(replace(queue, limit=change.limit[1]))
    wrong = [mistake for mistake in check_tree(world.queues, pool) if mistake not in known]
    assert not wrong, f"the change would be refused: {wrong}"


def change_is_true(world: World, name: str) -> None:
    """Applied to a world in the same state, the change starts the job."""
    found = why(world, name)
    if found.fix is None:
        assert found.change == ""
        return
    assert found.change
    changed = world.clone()
    apply(changed, name, found.fix)
    changed.settle()
    assert name in changed.running(), f"{found.change!r} did not start {name}: {found.sentence}"
