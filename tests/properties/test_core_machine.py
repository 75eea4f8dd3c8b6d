"""Random histories of the scheduling core against a naive reference.

Every step of every history checks what `tests.scheduler.invariants` says: no over-allocation, gangs whole,
limits and reserved kept, never-preempted work inside quota, one decision per job, the snapshot left as it
was, the same bytes in any order, no swapping, and nobody inside quota left waiting. Jobs may be recognised:
then those who have to make room may finish their epochs first, for a bounded time.
"""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.identifiers import JobId
from grus.model.jobs import Desired, Job, Phase
from grus.model.nodes import Health
from grus.model.queues import Queue, Quota
from grus.model.resources import GPU
from grus.scheduler.placement.feasibility import never_fits
from tests.properties.core_strategies import jobs, pools, size_of, trees
from tests.properties.profiles import profile
from tests.scheduler import invariants, reference
from tests.scheduler.builders import a_job, a_queue
from tests.scheduler.changes import change_is_true
from tests.scheduler.world import World


class CoreMachine(RuleBasedStateMachine):
    """One pool and its queues; jobs come, end, fail, are scaled and stopped; devices and quotas change."""

    world: World

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        nodes = data.draw(pools(), "pool")
        queues = data.draw(trees(size_of(nodes)), "queues")
        self.world = World(nodes, *queues)
        self.leaves = [q.name for q in queues if not any(other.parent == q.name for other in queues)]
        self.count = 0

    def one_of(self, data: st.DataObject, found: Sequence[Job]) -> Job:
        return data.draw(st.sampled_from(sorted(found, key=lambda job: job.id)), "job")

    def alive(self) -> list[Job]:
        return [job for job in self.world.jobs.values() if not job.terminal]

    def steady(self) -> list[Job]:
        """Jobs that run and that nobody has told anything."""
        return [job for job in self.alive() if reference.holds(job)]

    @rule(data=st.data(), number=st.integers(1, 4))
    def submit(self, data: st.DataObject, number: int) -> None:
        job = data.draw(jobs(f"j{self.count}", [str(leaf) for leaf in self.leaves]), "job")
        if never_fits(self.world.snapshot, job.spec):
            return  # refused, as the server does
        for _ in range(number):
            name = f"j{self.count}"
            self.count += 1
            self.world.submit(replace(job, id=JobId(name)))

    @rule()
    def settle(self) -> None:
        self.world.settle()

    @rule()
    def one_cycle(self) -> None:
        """Others may act before everything has settled."""
        self.world.step()

    @rule(seconds=st.sampled_from([1.0, 20.0, 61.0, 700.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.advance(seconds)

    @precondition(lambda self: self.steady())
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        self.world.finish(self.one_of(data, self.steady()).id)

    @precondition(lambda self: self.steady())
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        self.world.fail(self.one_of(data, self.steady()).id)

    @precondition(lambda self: self.steady())
    @rule(data=st.data())
    def save(self, data: st.DataObject) -> None:
        self.world.saved(self.one_of(data, self.steady()).id)

    @precondition(lambda self: self.steady())
    @rule(
        data=st.data(),
        period=st.sampled_from([None, 8.0, 30.0, 70.0, 500.0]),
        since=st.floats(0.0, 1.0),
        hung=st.sampled_from([False, False, False, True]),
    )
    def recognise(self, data: st.DataObject, period: float | None, since: float, hung: bool) -> None:
        """Somebody recognises the rhythm of a job, or that it hangs, or does not vouch for it any more."""
        now = self.world.now
        tag = Tag(
            kind=WorkloadKind.TRAINING,
            at=now,
            expires=now + 1e6,
            period=period,
            boundary=None if period is None else now - since * period,
            hung_since=now if hung else None,
        )
        nobody = period is None and not hung
        self.world.note(self.one_of(data, self.steady()).id, None if nobody else tag)

    @precondition(lambda self: self.alive())
    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        job = self.one_of(data, self.alive())
        if job.desired is Desired.RUN:
            self.world.stop(job.id)

    @precondition(lambda self: self.alive())
    @rule(data=st.data())
    def pause_or_resume(self, data: st.DataObject) -> None:
        job = self.one_of(data, self.alive())
        if job.desired is Desired.PAUSE and job.phase is Phase.PAUSED:
            self.world.resume(job.id)
        elif job.desired is Desired.RUN and job.phase is not Phase.PAUSING:
            self.world.pause(job.id)

    @precondition(lambda self: any(job.spec.request.elastic for job in self.alive()))
    @rule(data=st.data())
    def scale(self, data: st.DataObject) -> None:
        job = self.one_of(data, [job for job in self.alive() if job.spec.request.elastic])
        sizes = st.sampled_from(job.spec.request.allowed)
        low, high = sorted((data.draw(sizes, "one end"), data.draw(sizes, "other end")))
        self.world.scale(job.id, low, high)

    @rule(data=st.data(), health=st.sampled_from([*Health, Health.HEALTHY]))
    def device_changes(self, data: st.DataObject, health: Health) -> None:
        devices = [device.id for node in self.world.nodes for device in node.devices]
        self.world.change_device(data.draw(st.sampled_from(devices), "device"), health=health, outside="")

    @rule(data=st.data())
    def cordon(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(self.world.nodes), "node")
        self.world.cordon(node.id, not node.cordoned)

    @rule(data=st.data())
    def quota_changes(self, data: st.DataObject) -> None:
        """A leaf's quota anywhere between what keeps the tree legal."""
        name = data.draw(st.sampled_from(self.leaves), "queue")
        queue = next(queue for queue in self.world.queues if queue.name == name)
        low, high = queue.reserved // GPU, _most_quota(self.world, queue) // GPU
        if high >= low:
            quota = Quota.of(data.draw(st.integers(low, high), "quota"))
            self.world.set_queue(replace(queue, quota=quota))

    @precondition(lambda self: self.world.waiting())
    @rule(data=st.data())
    def ask_why(self, data: st.DataObject) -> None:
        """What the explanation says would start the job does start it, in a world of the same state."""
        self.world.settle()
        if waiting := sorted(self.world.waiting()):
            change_is_true(self.world, data.draw(st.sampled_from(waiting), "job"))

    def teardown(self) -> None:
        """Everything heals, what runs ends; in the end nobody waits who could run."""
        if not hasattr(self, "count"):
            return
        world = self.world
        for node in world.nodes:
            world.cordon(node.id, cordoned=False)
            for device in node.devices:
                world.change_device(device.id, health=Health.HEALTHY, outside="")
        for _ in range(2 * len(world.jobs) + 2):
            world.advance(700)
            for name in sorted(world.running()):
                world.finish(name)
        world.advance(700)
        assert not world.running()
        for job in self.alive():
            assert not _could_run(world, job), f"{job.id} waits alone in an empty pool"


def _most_quota(world: World, queue: Queue) -> int:
    """What the parent (or the pool) leaves to the queue, and its own limit."""
    siblings = sum(q.quota.total for q in world.queues if q.parent == queue.parent and q is not queue)
    above = next((q.quota.total for q in world.queues if q.name == queue.parent), size_of(world.nodes) * GPU)
    most = above - siblings
    return most if queue.limit is None else min(most, queue.limit)


def _could_run(world: World, job: Job) -> bool:
    facts = world.facts()
    if not reference.waits(facts, job) or not reference.fits_now(facts, job):
        return False
    amount = reference.minimum(facts, job)
    queues = reference.chain(facts, job.spec.queue)
    if job.spec.never_preempted and any(amount > queue.quota.total for queue in queues):
        return False
    if any(queue.limit is not None and amount > queue.limit for queue in queues):
        return False
    return reference.claimed(invariants.holding(facts, job, amount)) <= reference.pool(facts)


TestCoreMachine = CoreMachine.TestCase
TestCoreMachine.settings = profile(examples=400, steps=30)


# ------------------------------------------------------------------------------- worlds of single GPUs


@st.composite
def flat(draw: st.DrawFn) -> tuple[int, list[Queue]]:
    pool = draw(st.integers(2, 8))
    left, queues = pool, []
    for i in range(draw(st.integers(2, 4))):
        quota = draw(st.integers(0, left))
        left -= quota
        reserved = draw(st.integers(0, quota)) if draw(st.integers(0, 2)) == 0 else 0
        limit = quota + draw(st.integers(0, 2)) if draw(st.integers(0, 3)) == 0 else None
        weight = draw(st.sampled_from([1.0, 2.0, 3.0]))
        queues.append(a_queue(f"q{i}", quota=quota, reserved=reserved, weight=weight, limit=limit))
    return pool, queues


@given(flat(), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=12))
@profile(examples=60)
def test_single_gpus_never_idle_without_reason_and_shares_are_fair(
    case: tuple[int, list[Queue]], events: list[tuple[int, int]]
) -> None:
    """After each event and the first minute of everybody: nobody waits beside a free GPU, shares are fair."""
    pool, queues = case
    world = World(f"1x{pool}", *queues)
    for number, (which, count) in enumerate(events):
        queue = queues[which % len(queues)].name
        if count:
            world.submit(*[a_job(f"{queue}-{number}-{i}", queue=queue) for i in range(count)])
        elif running := world.running(queue):
            world.finish(min(running))
        world.advance(61).advance(61).advance(61)
        wrong = invariants.singles_at_rest(world.facts())
        assert not wrong, wrong
