"""After the storm: a time without faults, in which promises of progress must hold and everything must end.

L1  a request inside its quota starts within its victims' grace and two looks at the pool
L3  it does so beside jobs that can never start
L4  a lost GPU is noticed within 10 s, and its job goes on elsewhere
    everything ends, nothing is left

L2 (nobody who runs is stopped by a new control plane) is checked at every stop, by `Promises`. L5 says how
many nodes may be quarantined by themselves; Grus takes out single GPUs that are lost, and never a node.
"""

from grus.model.identifiers import DeviceId, JobId
from grus.model.jobs import Desired, Job, JobType, Phase
from grus.model.nodes import Health
from grus.model.queues import gpus
from grus.model.resources import GPU
from tests.controlplane.plane import a_spec
from tests.trust.storm import LOOKS, Storm, unfinished
from tests.trust.violations import Broken

ROUNDS = 400
STEP = 31.0
"""Seconds: every pass of the slow tick sees a new state."""
SETTLING = 120.0
"""Seconds after which nothing of the storm is left that takes time: graces, undead workers, late news."""
NOTICED = 10.0
LONGEST_GRACE = 30.0
POISON = 3
"""Jobs that can never start, beside which the probe must."""
OF_A = 2
"""GPUs of queue a's quota."""
BORROWERS = 8
"""Jobs of one GPU that never end by themselves, most of them above their quota: they fill the pool."""


def calm(storm: Storm) -> None:
    """Let everything finish. Raises Broken if it does not."""
    world = storm.world
    storm.clear()
    world.advance(SETTLING)
    _starts_inside_quota(storm)
    _goes_on_elsewhere(storm)
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
        left = unfinished(world.open_jobs())
        raise Broken("L1", f"after {ROUNDS * STEP:g} s without faults there are left: {left}")
    world.advance(STEP)
    _is_final(storm)
    world.recount()
    if known := world.pool.workers.known:
        raise Broken("S9", f"all jobs have ended, but there are workers: {list(known)}")
    if held := {device: use for device, use in world.promises.use.items() if use}:
        raise Broken("S9", f"all jobs have ended, but held is {held}")


def _starts_inside_quota(storm: Storm) -> None:
    """L1 and L3: queue a wants its whole quota and nothing else, and others have borrowed all there is."""
    world = storm.world
    for job in [job for job in world.open_jobs() if job.spec.queue == "a"]:
        storm.wish("stop", job.id)
    world.advance(LONGEST_GRACE + LOOKS)
    borrowers = [_submit(storm, f"borrower-{number}", "default") for number in range(BORROWERS)]
    world.advance(SETTLING)
    free = sum(GPU - world.promises.use[device.id] for node in world.pool.whole for device in node.devices)
    world.note("pool full" if free < OF_A * GPU else "pool not full", f"{gpus(free)} GPUs are free")
    poison = [_submit(storm, f"poison-probe-{number}", "b") for number in range(POISON)]
    probe = _submit(storm, "probe", "a", OF_A)
    world.advance(LONGEST_GRACE + LOOKS)
    for borrower in borrowers:
        storm.wish("stop", borrower)
    job = world.disk.job(probe)
    if job.first_started_at is None:
        late = f"{LONGEST_GRACE + LOOKS:g} s after it was submitted inside its quota it is {job.phase.value}"
        raise Broken("L1", f"{late}: {job.reason}")
    took = job.first_started_at - job.submitted_at
    world.note("probe L1", f"{probe} has started {took:g} s after it was submitted")
    tried = sum(world.disk.job(one).attempt for one in poison)
    world.note("probe L3", f"beside it {POISON} jobs that never can start were tried {tried} times")


def _submit(storm: Storm, name: str, queue: str, size: int = 1) -> JobId:
    storm.asked[name] = a_spec(name, queue=queue, gpus=size, retries=2)
    storm.submit(name)
    return storm.world.promises.answered[name]


def _goes_on_elsewhere(storm: Storm) -> None:
    """L4: the GPU of a running job is lost."""
    world = storm.world
    job = next((job for job in world.open_jobs() if _runs(job)), None)
    if job is None:
        return
    device = next(device for seat in job.seats for device in seat.devices)  # a launcher has none
    world.pool.health(device, Health.QUARANTINED)
    world.note("probe L4", f"{device} of {job.id} is lost")
    world.advance(NOTICED)
    after = world.disk.job(job.id)
    if _stays_on(after, device):
        raise Broken("L4", f"{device} was lost {NOTICED:g} s ago, and {job.id} stays on it: {after.phase}")
    world.advance(STEP)
    world.pool.health(device, Health.HEALTHY)


def _runs(job: Job) -> bool:
    return job.phase is Phase.RUNNING and job.desired is Desired.RUN and job.exit is None and bool(job.held)


def _stays_on(job: Job, device: DeviceId) -> bool:
    if job.phase not in (Phase.STARTING, Phase.RUNNING) or job.exit is not None:
        return False
    return any(device in seat.devices for seat in job.staying)


def _is_final(storm: Storm) -> None:
    """Whatever people still ask of what has ended: a write of it would break a promise."""
    for job in list(storm.world.disk.every_job.values()):
        for wish in ("pause", "resume", "stop"):
            storm.wish(wish, job.id)
    storm.world.serve()
