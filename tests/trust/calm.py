"""After the storm: a time without faults, in which everything must come to its end and nothing be left."""

from grus.model.jobs import Desired, JobType
from tests.trust.storm import Storm, unfinished
from tests.trust.violations import Broken

ROUNDS = 400
STEP = 31.0
"""Seconds: every pass of the slow tick sees a new state."""


def calm(storm: Storm) -> None:
    """Let everything finish. Raises Broken if it does not."""
    world = storm.world
    storm.clear()
    for _ in range(ROUNDS):
        open_ = world.open_jobs()
        if not open_:
            break
        for job in open_:
            if job.desired is Desired.PAUSE:
                storm.wish("resume", job.id)
            elif job.spec.type is JobType.SERVE and job.started_at is not None:
                storm.wish("stop", job.id)
        world.advance(STEP)
    else:
        raise Broken(
            "L1", f"after {ROUNDS * STEP:g} s without faults there are left: {unfinished(world.open_jobs())}"
        )
    world.advance(STEP)
    world.recount()
    if left := world.pool.workers.known:
        raise Broken("S9", f"all jobs have ended, but there are workers: {list(left)}")
    if held := {device: use for device, use in world.promises.use.items() if use}:
        raise Broken("S9", f"all jobs have ended, but held is {held}")
