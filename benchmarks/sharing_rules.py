"""The rules that the sharing benchmark compares: first fit, best fit, FGD's, and the production scheduler.

Each says where a job goes, as the number of a machine and of devices on it, or None for nowhere.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from benchmarks.sharing_mix import Machine, Sort, State, unusable
from grus.model.identifiers import JobId, UserName
from grus.model.jobs import PRIORITIES, Job, Phase, Spec
from grus.model.nodes import Node
from grus.model.queues import DEFAULT_QUEUE, Queue, Quota
from grus.model.resources import GPU, Range, Replica, Request, Role
from grus.scheduler.cycle import decide
from grus.scheduler.decisions import Start
from grus.scheduler.state.snapshot import Snapshot

Placed = tuple[int, tuple[int, ...]]
Rule = Callable[[Sequence[Machine], Sort], Placed | None]


def options(state: State, sort: Sort) -> Iterator[tuple[int, ...]]:
    """Devices of a node that the job could go to; for a slice one device of each amount free."""
    free, cpu, memory = state
    if cpu < sort.cpu or memory < sort.memory:
        return
    if sort.gpus:
        whole = [device for device, amount in enumerate(free) if amount == GPU]
        if len(whole) >= sort.gpus:
            yield tuple(whole[: sort.gpus])
        return
    seen = set()
    for device, amount in enumerate(free):
        if amount >= sort.share and amount not in seen:
            seen.add(amount)
            yield (device,)


def after(state: State, sort: Sort, devices: tuple[int, ...]) -> State:
    """What would be free then."""
    free, cpu, memory = state
    left = tuple(amount - sort.need if i in devices else amount for i, amount in enumerate(free))
    return left, cpu - sort.cpu, memory - sort.memory


def first_fit(machines: Sequence[Machine], sort: Sort) -> Placed | None:
    for number, machine in enumerate(machines):
        for devices in options(machine.state, sort):
            return number, devices
    return None


def least(score: Callable[[State, Sort, tuple[int, ...]], tuple[float, ...]]) -> Rule:
    """The rule that takes the place with the least score; among equals the first."""

    @lru_cache(maxsize=1 << 18)
    def best_of(state: State, sort: Sort) -> tuple[tuple[float, ...], tuple[int, ...]] | None:
        return min(((score(state, sort, devices), devices) for devices in options(state, sort)), default=None)

    def place(machines: Sequence[Machine], sort: Sort) -> Placed | None:
        best: tuple[tuple[float, ...], int, tuple[int, ...]] | None = None
        for number, machine in enumerate(machines):
            found = best_of(machine.state, sort)
            if found is not None and (best is None or found[0] < best[0]):
                best = (found[0], number, found[1])
        return None if best is None else best[1:]

    return place


def _left_over(state: State, sort: Sort, devices: tuple[int, ...]) -> tuple[float, ...]:
    """Best fit: the node that is left with the least GPU, then the device, then the least CPU."""
    free, cpu, _ = after(state, sort, devices)
    return sum(free), min(free[device] for device in devices), cpu


_unusable = lru_cache(maxsize=1 << 18)(unusable)


def _growth(state: State, sort: Sort, devices: tuple[int, ...]) -> tuple[float, ...]:
    """FGD: where its measure of fragmentation grows least. It knows the true mix. Ties go by best fit, which
    is kinder to it than its authors' first found."""
    then = after(state, sort, devices)
    return (_unusable(then) - _unusable(state), *_left_over(state, sort, devices))


def best_fit() -> Rule:
    return least(_left_over)


def fgd() -> Rule:
    return least(_growth)


class Production:
    """The scheduler as it is: a snapshot, one job more at a time, `decide`.

    It knows the mix only from the jobs that run. All jobs are never preempted, so that nothing is moved or
    paused to make room; one that finds no place is taken away, as with the other rules.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        gpus = sum(len(node.devices) for node in nodes)
        self._snapshot = Snapshot(nodes, [Queue(name=DEFAULT_QUEUE, quota=Quota.of(gpus))])
        self._number = {node.id: number for number, node in enumerate(nodes)}
        self._device = {device.id: i for node in nodes for i, device in enumerate(node.devices)}
        self._jobs = 0

    def __call__(self, machines: Sequence[Machine], sort: Sort) -> Placed | None:  # noqa: ARG002 - it has its own
        self._jobs += 1
        now = float(self._jobs)
        job = Job(
            id=JobId(f"j-{self._jobs:06}"), spec=_spec(sort), user=UserName("somebody"), submitted_at=now
        )
        self._snapshot.put(job)
        actions = decide(self._snapshot, now).actions
        if not actions:
            self._snapshot.put(replace(job, phase=Phase.STOPPED))
            return None
        (start,) = actions
        assert isinstance(start, Start)
        assert start.job == job.id
        self._snapshot.put(
            replace(job, phase=Phase.RUNNING, attempt=1, generation=1, seats=start.seats, started_at=now)
        )
        (seat,) = start.seats
        return self._number[seat.node], tuple(self._device[device] for device in seat.devices)


@lru_cache
def _spec(sort: Sort) -> Spec:
    replica = Replica(gpus=sort.gpus, share=sort.share, cpu=sort.cpu, memory=sort.memory)
    return Spec(
        name="job",
        queue=DEFAULT_QUEUE,
        run=("true",),
        request=Request((Role("worker", Range(1, 1), replica),), one_node=True),
        priority=PRIORITIES["dev"],
    )
