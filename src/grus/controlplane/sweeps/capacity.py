"""Room for trials: the resources that the pool would give a search now. Pure: a snapshot and the existing
trials → how many more.
"""

from collections.abc import Sequence

from grus.model.jobs import Desired, Job, Phase, Spec
from grus.model.resources import GPU
from grus.scheduler.state.node_capacity_index import NOW, DeviceState
from grus.scheduler.state.snapshot import Snapshot
from grus.tuning.decide_trials import Room

STUCK = 2.0
"""Seconds after which a trial that waits although it seems to fit shows that the line does not move."""


def room(snapshot: Snapshot, template: Spec, trials: Sequence[Job], now: float) -> Room:
    """Return the free places for trials of this size, less those for which trials wait already."""
    devices = [device for device in snapshot.pool.devices if device.open]
    waiting = [job for job in trials if job.phase is Phase.PENDING and job.desired is Desired.RUN]
    stuck = any(max(job.submitted_at, job.not_before) + STUCK < now for job in waiting)
    free = 0 if stuck else _places(devices, template)
    gpus = sum(device.free[NOW] == GPU for device in devices)
    return Room(slots=max(0, free - len(waiting)), gpus=gpus)


def _places(devices: Sequence[DeviceState], template: Spec) -> int:
    """Return the number of trials that the free devices could take, as far as their GPUs are concerned."""
    roles = template.request.roles
    replica = roles[0].replica
    fitting = [one for one in devices if not replica.types or one.type in replica.types]
    if len(roles) == 1 and not replica.gpus:
        each = ((one.free[NOW], replica.share_of(one.memory)) for one in fitting)
        return sum(free // share for free, share in each if share)
    wanted = sum(role.replicas.low * role.replica.gpus for role in roles)
    if not wanted:
        return 0
    whole = [one.node.index for one in fitting if one.free[NOW] == GPU]
    if not template.request.one_node:
        return len(whole) // wanted
    return sum(whole.count(node) // wanted for node in set(whole))
