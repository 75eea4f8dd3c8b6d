"""Random histories of jobs that share GPUs, beside others that do not.

The world checks after every step that no GPU is given out more than once, that limits and what is reserved
hold, and that nothing comes back to where it was without an outside event. Here is checked besides that
nobody is touched who does not share: what is decided for all others is what would be decided without guests.
"""

import random
from dataclasses import replace

from grus.model.identifiers import JobId
from grus.model.jobs import Job, Phase
from grus.model.resources import GPU
from grus.scheduler.cycle import decide
from grus.scheduler.decisions import Decision, Decisions, Share, Start
from grus.scheduler.state.gpu_footprint import MEASURED, Footprint
from grus.scheduler.state.snapshot import Snapshot
from tests.properties.profiles import PROOF
from tests.scheduler import reference
from tests.scheduler.builders import GB, Gpus, a_job, a_pool, a_queue
from tests.scheduler.world import World

STEPS = 40
NAMES = ("light", "mean", "heavy")
QUEUES = (
    a_queue("A", quota=2),
    a_queue("B", quota=1, reserved=1),
    a_queue("C", quota=0, limit=1.5, weight=2.0),
)


class Sharers(World):
    """A world in which what others get is compared at every step with a world without guests."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance.choice(["1x3", "2x2", "1x4"]), *QUEUES)
        self.chance = chance
        self.gains: dict[tuple[str, str], float] = {}
        self.number = 0

    def come(self) -> None:
        self.number += 1
        name = f"j{self.number}"
        shares = self.chance.random() < 0.7
        others: list[Gpus] = [2, 0.5, "1..3"]
        gpus = 1 if shares or self.chance.random() < 0.7 else self.chance.choice(others)
        priority = self.chance.choice([50, 50, 50, 60, 100])
        queue = self.chance.choice(QUEUES).name
        self.submit(a_job(name, queue=queue, gpus=gpus, shares=shares, priority=priority))
        if shares and self.chance.random() < 0.8:
            self.see(name, self.chance.choice(NAMES))

    def see(self, job: str, name: str) -> None:
        use = {"light": 0.2, "mean": 0.6, "heavy": 1.0}[name]
        gains = tuple((other, gain) for (one, other), gain in sorted(self.gains.items()) if one == name)
        self.gauge(job, Footprint(name, use, self.chance.choice([3, 6, 9]) * GB, gains))

    def measure(self) -> None:
        """A pair that runs was measured; all of its kinds hear of it."""
        pairs = [job for job in self.jobs.values() if job.guest_of and job.phase is Phase.RUNNING]
        if not pairs:
            return
        guest = self.chance.choice(pairs)
        assert guest.guest_of is not None
        one, other = self.footprints.get(guest.id), self.footprints.get(guest.guest_of)
        if one is None or other is None:
            return
        gain = self.chance.choice([0.8, 1.4])
        self.gains |= {(one.name, other.name): gain, (other.name, one.name): gain}
        for name, known in list(self.footprints.items()):
            if not self.jobs[name].terminal:
                gains = tuple((b, gain) for (a, b), gain in sorted(self.gains.items()) if a == known.name)
                self.gauge(name, replace(known, gains=gains))

    def end(self) -> None:
        running = [job.id for job in self.jobs.values() if job.phase is Phase.RUNNING]
        if running:
            self.chance.choice([self.finish, self.stop, self.pause])(self.chance.choice(running))

    def back(self) -> None:
        paused = [j.id for j in self.jobs.values() if j.phase is Phase.PAUSED and j.desired == "pause"]
        if paused:
            self.resume(self.chance.choice(paused))

    def sicken(self) -> None:
        device = self.chance.choice([d.id for node in self.nodes for d in node.devices])
        self.lose(device) if self.chance.random() < 0.5 else self.set_nodes(a_pool(_shape(self)))

    def step(self) -> Decisions:
        self._compare()
        decisions = super().step()
        for device, use in reference.device_use(self.facts()).items():
            assert use <= GPU, f"{device} is given out more than once"
        for job in self.jobs.values():
            if any(0 < seat.share < GPU for seat in job.seats):
                assert job.spec.request.shares or job.spec.request.roles[0].replica.share, job
        return decisions

    def _compare(self) -> None:
        """What others get does not depend on guests."""
        guests = {job.id for job in self.jobs.values() if _lodges(job)}
        if not guests or any(_alone_after_its_host(self, self.jobs[id_]) for id_ in guests):
            return
        actions = decide(self.anew(), self.now).actions
        shared = {_key(a) for a in actions if a.job not in guests and not _packing(a)}
        alone = {_key(action) for action in decide(self._without(guests), self.now).actions}
        parted = any(action.job in guests for action in actions)
        # One who waits for a guest to leave starts as soon as that has left.
        assert shared <= alone if parted else shared == alone, (shared, alone)

    def _without(self, guests: set[JobId]) -> Snapshot:
        """The same facts with hosts that have their GPUs whole, and guests that want one elsewhere."""
        snapshot = Snapshot(self.nodes, self.queues, (), self.policy)
        for job in self.jobs.values():
            if job.terminal and job.id in self._last_run:
                snapshot.put(self._last_run[job.id])
        for job in self.jobs.values():
            snapshot.put(_as_if_alone(job), "a guest" if job.id in guests else self._blocked(job))
            if job.id in guests:
                snapshot._demand(snapshot.entries[job.id], 1)
        return snapshot


def _key(action: Decision) -> tuple[object, ...]:
    """What is done, without the reason, in which what queues hold is told with the halves of guests."""
    return type(action), action.job, getattr(action, "seats", ()), getattr(action, "preemptor", None)


def _lodges(job: Job) -> bool:
    return job.guest_of is not None and job.phase in (Phase.STARTING, Phase.RUNNING)


def _alone_after_its_host(world: World, guest: Job) -> bool:
    """Its host has left: it takes the GPU if it is its turn, as one who waits would."""
    host = world.jobs[guest.guest_of] if guest.guest_of is not None else None
    return host is None or not reference.holds(host) or host.seats[0].devices != guest.seats[0].devices


def _as_if_alone(job: Job) -> Job:
    if _lodges(job):
        return replace(job, phase=Phase.PENDING, seats=())
    if job.spec.request.shares:
        return replace(job, seats=tuple(replace(seat, share=GPU) for seat in job.seats))
    return job


def _packing(action: Decision) -> bool:
    return isinstance(action, Share) or (isinstance(action, Start) and action.guest_of is not None)


def _shape(world: World) -> str:
    return f"{len(world.nodes)}x{len(world.nodes[0].devices)}"


def play(seed: int) -> Sharers:
    world = Sharers(random.Random(seed))
    for _ in range(STEPS):
        event = world.chance.choices(
            [world.come, world.measure, world.end, world.back, world.sicken], [8, 3, 4, 1, 0.3]
        )[0]
        event()
        world.settle()
        if world.chance.random() < 0.4:
            world.advance(world.chance.choice([5, 70, 700]))
    return world


def test_nothing_is_given_out_twice_and_nobody_else_is_touched() -> None:
    worlds = [play(seed) for seed in range(300 if PROOF else 10)]
    # What is searched for has to be there: else nothing was tested.
    starts = [a for w in worlds for _, a in w.history if isinstance(a, Start) and a.guest_of is not None]
    reasons = [action.reason for world in worlds for _, action in world.history]
    assert len(starts) > 15
    assert sum("measured to do 0.80 times" in reason for reason in reasons) > 2
    assert sum("for itself again" in reason for reason in reasons) > 5
    assert all(gain > MEASURED for world in worlds for gain in _kept_gains(world))


def _kept_gains(world: Sharers) -> list[float]:
    """The measured gains of the pairs that are together at the end."""
    found = []
    for job in world.jobs.values():
        if _lodges(job) and job.guest_of in world.footprints and job.id in world.footprints:
            gain = world.footprints[job.id].measured(world.footprints[job.guest_of])
            found += [] if gain is None else [gain]
    return found
