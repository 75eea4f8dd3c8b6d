"""Explanation of a waiting job: one reason with numbers, the jobs that hold what it needs, the cheapest
change that starts it.

A change is named only after it was tried: applied to the snapshot, decided on with all others in line, and
undone. Applying it for real starts the job, now or as soon as the jobs that must leave have left.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from heapq import nlargest

from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.jobs import NEVER_PREEMPTED, Desired, Job, JobType, PauseCause, Phase
from grus.model.queues import DEFAULT_QUEUE, Quota, check_tree, gpus
from grus.model.resources import GPU, Request
from grus.model.texts.plural_words import counted
from grus.scheduler.cycle import Cycle, decide
from grus.scheduler.decisions import Decision, Pause, Resize, Share, Start, with_share
from grus.scheduler.placement.feasibility import with_replicas
from grus.scheduler.preempt.node_drain import leave_drained
from grus.scheduler.queues.admission_stage import UNLIKE
from grus.scheduler.queues.gpu_type_quota import typed_bar
from grus.scheduler.queues.queue_usage_tree import QueueNode
from grus.scheduler.queues.user_limits import USER_LIMIT, Allowance
from grus.scheduler.state.job_entry import Entry
from grus.scheduler.state.node_capacity_index import NOW, SOON
from grus.scheduler.state.snapshot import Snapshot

STOPPABLE = 8
"""Maximum number of jobs that are named to be stopped."""
HOLDERS = 10
MOST_TRIED = 4
"""Maximum number of changes tried with all others in line; each costs a decision or two."""
ROUNDS = 4
"""Maximum number of decisions simulated to see whether a change starts a job."""
SOON_IN_LINE = 60.0
"""Seconds: jobs that are tried again before that count as waiting already. A change takes time, and to start
a job for a moment only is no help.
"""


@dataclass(frozen=True, slots=True)
class UnblockingChange:
    """A change that starts a job: exactly one of the fields is set."""

    request: Request | None = None
    """Smaller request to submit instead."""
    quota: tuple[QueueName, int] | None = None
    """New quota of this queue, in micro-GPUs."""
    limit: tuple[QueueName, int] | None = None
    user_limit: tuple[UserName, int] | None = None
    """New limit of this user, in micro-GPUs."""
    priority: int | None = None
    """Priority to submit it with."""
    stop: tuple[JobId, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explanation of a job's state."""

    code: str
    sentence: str
    holders: tuple[tuple[JobId, int], ...] = ()
    """Jobs that hold what it waits for, and the amount, in micro-GPUs."""
    change: str = ""
    """Cheapest change that starts it now, as a sentence; "" if none was found."""
    fix: UnblockingChange | None = None
    """Same change for programs."""
    notes: tuple[str, ...] = ()
    """Other helpful facts about it: its recognized activity, announced actions, possible requests."""


def explain(snapshot: Snapshot, job: JobId, now: float) -> Explanation:
    """Explain why the job waits, and what would start it."""
    entry = snapshot.entries[job]
    if not entry.waiting:
        snapshot.advance(now)
    if not entry.waiting:
        return _not_in_line(entry, now)
    cycle = _decided(snapshot, now)
    planned = bool(entry.places)
    code = "" if planned else _code(cycle, entry)
    leaving = sorted({other.id for other in cycle.victims} | set(snapshot.going))
    put_off = {other.id: at - now for other, at in cycle.put_off.items()}
    cycle.close()
    if planned:
        return _leaving_first(snapshot, entry, leaving, put_off)
    sentence = _sentence(snapshot, entry, code)
    fix = _cheapest(snapshot, entry, now)
    return Explanation(code, sentence, _holders(snapshot, entry, code), _say(snapshot, entry, fix), fix)


def about_to_leave(snapshot: Snapshot, job: JobId, now: float) -> str:
    """Describe for which job a running one must make room once its epoch has ended; "" if for none."""
    entry = snapshot.entries[job]
    if entry.tag is None or not entry.running:
        return ""
    cycle = _decided(snapshot, now)
    at, victim = cycle.put_off.get(entry), cycle.victims.get(entry)
    cycle.close()
    if at is None or victim is None:
        return ""
    other = victim.preemptor
    whom = f"{other.job.spec.name} ({other.id}) of {other.queue.name}"
    return f"it has to make room for {whom}, and is let finish its epoch first, for another {at - now:.0f} s"


def _decided(snapshot: Snapshot, now: float) -> Cycle:
    """Return a cycle carried as far as the difference; the caller reads it and closes it."""
    cycle = Cycle(snapshot, now)
    cycle.requeue_broken()
    cycle.obey_sizes()
    leave_drained(cycle)
    cycle.share()
    return cycle


def _code(cycle: Cycle, entry: Entry) -> str:
    if entry.lacks_allowance(entry.shape.minimum, SOON):
        return USER_LIMIT
    for found in entry.queue.line.classes():
        if entry.age in found.entries:
            return cycle.blocked.get(found.group) or cycle.reason_untried(entry)
    return "no free GPUs"


def _not_in_line(entry: Entry, now: float) -> Explanation:
    job = entry.job
    if entry.blocked:
        return Explanation("after", entry.blocked)
    if entry.delayed:
        wait = max(0.0, job.not_before - now)
        return Explanation(
            "back-off", f"failed {counted(job.failures, 'time')}; it is tried again in {wait:.0f} s"
        )
    if job.phase is Phase.PAUSED:
        if job.paused_by in (PauseCause.SWEEP, PauseCause.RUNG):
            return Explanation(
                "paused", f"paused by its sweep, which resumes it: {job.verdict or job.reason}"
            )
        who = "its idle policy" if job.paused_by is PauseCause.IDLE else "a person"
        return Explanation("paused", f"paused by {who}; `grus resume {job.id}` lets it go on")
    if job.desired is Desired.STOP:
        return Explanation("stopping", "told to stop; its processes are ending")
    return Explanation(job.phase.value, job.reason or f"it is {job.phase.value}")


def _leaving_first(
    snapshot: Snapshot, entry: Entry, leaving: list[JobId], put_off: dict[JobId, float]
) -> Explanation:
    held = tuple((job, snapshot.entries[job].job.held) for job in leaving if job in snapshot.entries)
    names = ", ".join(snapshot.entries[job].job.spec.name for job, _ in held) or "its seats"
    need = gpus(entry.shape.minimum)
    chosen = "GPU is" if entry.shape.minimum <= GPU else "GPUs are"
    sentence = f"its {need} {chosen} chosen; it starts when {names} has left them"
    for job, wait in sorted(put_off.items()):
        name = snapshot.entries[job].job.spec.name
        sentence += f"; {name} is let finish its epoch first, for another {wait:.0f} s"
    return Explanation("waiting for others to leave", sentence, held)


# ------------------------------------------------------------------------------------------- the reason


def _sentence(snapshot: Snapshot, entry: Entry, code: str) -> str:
    queue, need = entry.queue, gpus(entry.shape.minimum)
    held, quota = gpus(queue.held[SOON]), gpus(queue.quota)
    pool = snapshot.pool
    if code == USER_LIMIT and entry.allowance is not None:
        mine, most = gpus(entry.allowance.held[SOON]), gpus(entry.allowance.limit)
        return f"needs {need}; user {entry.user} holds {counted(mine, 'GPU')} and may hold {most} at most"
    if code == "limit":
        node = min(queue.path[1:], key=lambda n: n.limit - n.held[SOON])
        return f"needs {need}; {node.name} holds {gpus(node.held[SOON])} and its limit is {gpus(node.limit)}"
    if code == "reserved":
        idle = sum(max(0, leaf.reserved - leaf.held[SOON]) for leaf in snapshot.tree.leaves)
        return (
            f"needs {need}; of {gpus(pool.free[SOON])} free GPUs {gpus(idle)} are reserved for other queues"
        )
    if code == "never-preempted quota":
        never = gpus(queue.never_held)
        if typed := typed_bar(snapshot.tree, pool, queue, entry.shape):
            return f"never preempted, so it must be inside quota: {typed}"
        return f"needs {need}, never preempted; {queue.name} has {never} such in use of its quota {quota}"
    if code == "scattered":
        free = gpus(pool.free[SOON])
        return f"needs {counted(need, 'GPU')} together; {free} are free but on different nodes"
    if code == UNLIKE:
        return f"needs {counted(need, 'GPU')} of one type; free are {_free_by_type(snapshot, entry)}"
    shape_free = max(pool.whole_free_of(group, entry.shape.nodes, SOON) for group in entry.shape.groups)
    share, alike = gpus(queue.share), " of one type" if _keeps_to_one_type(snapshot, entry) else ""
    return (
        f"needs {counted(need, 'GPU')}{alike}; {shape_free} that it may use are free; "
        f"{queue.name} holds {held} (quota {quota}, fair share {share})"
    )


def _keeps_to_one_type(snapshot: Snapshot, entry: Entry) -> bool:
    """Return True if it waits for several GPUs of one type although there are others that it might use."""
    replicas = sum(part.low for part in entry.shape.parts if part.unit)
    named = any(role.replica.types for role in entry.job.spec.request.roles)
    many = len(snapshot.pool.by_type) > 1 and replicas > 1
    return (
        many and not named and not entry.job.spec.request.mixed and entry.job.spec.type is not JobType.SERVE
    )


def _free_by_type(snapshot: Snapshot, entry: Entry) -> str:
    """Describe the free GPUs that it may use, by type: 2 A100, 3 T4."""
    pool, found = snapshot.pool, dict[str, int]()
    for kind in sorted(entry.shape.kinds):
        name = pool.kinds[kind][0]
        found[name] = found.get(name, 0) + pool.whole_free(kind, entry.shape.nodes, SOON)
    return ", ".join(f"{number} {name}" for name, number in found.items() if number)


def _holders(snapshot: Snapshot, entry: Entry, code: str) -> tuple[tuple[JobId, int], ...]:
    if code == USER_LIMIT:
        mine = [other for other in snapshot.holders() if other.user == entry.user and other.held]
        mine.sort(key=lambda other: (-other.held, other.id))
        return tuple((other.id, other.held) for other in mine[:HOLDERS])
    own = code in ("limit", "never-preempted quota")
    kinds = entry.shape.kinds
    found: list[tuple[int, JobId]] = []
    for other in _biggest(snapshot, entry.queue):
        if own and entry.queue.path[1] is not other.queue.path[1]:
            continue
        held = sum(
            place.held
            for place in (*other.places, *other.leaving)
            if place.node.bit & entry.shape.nodes and place.devices and place.devices[0].kind in kinds
        )
        if held:
            found.append((-held, other.id))
    found.sort()
    return tuple((job, -held) for held, job in found[:HOLDERS])


def _biggest(snapshot: Snapshot, queue: QueueNode) -> list[Entry]:
    """Return the jobs of the queue, and of the others those that hold most: enough to name, cheap among
    thousands.
    """
    others = [e for leaf in snapshot.tree.leaves if leaf is not queue for e in leaf.running.values()]
    most = nlargest(5 * HOLDERS, others, key=lambda entry: entry.held)
    return [*queue.running.values(), *most, *(e for e in snapshot.going.values() if not e.running)]


# --------------------------------------------------------------------------------- the cheapest change


def _cheapest(snapshot: Snapshot, entry: Entry, now: float) -> UnblockingChange | None:
    """Return the cheapest change. Changes are tried in the order of their cost to people: a smaller request,
    a higher priority, a raised rule, stopped jobs.
    """
    tried = 0
    for candidate in _candidates(snapshot, entry):
        if tried >= MOST_TRIED:
            return None
        if not _starts_alone(snapshot, entry.job, candidate, now):
            continue
        tried += 1
        if starts_with(snapshot, entry.job, candidate, now):
            return candidate
    return None


def _candidates(snapshot: Snapshot, entry: Entry) -> Iterator[UnblockingChange]:
    yield from (UnblockingChange(request=request) for request in _smaller(snapshot, entry.job))
    if _keeps_to_one_type(snapshot, entry):
        yield UnblockingChange(request=replace(entry.job.spec.request, mixed=True))
    amount, queue = entry.shape.minimum, entry.queue
    top = max([*queue.priorities, *queue.line.levels])
    if entry.priority <= top < NEVER_PREEMPTED - 1:
        yield UnblockingChange(priority=top + 1)
    if entry.allowance is not None and entry.allowance.lacks(amount, SOON):
        yield UnblockingChange(user_limit=(entry.user, entry.allowance.held[SOON] + amount))
    for node in entry.queue.path[1:]:
        if node.held[SOON] + amount > node.limit:
            yield UnblockingChange(limit=(node.name, node.held[SOON] + amount))
    wanted = max(queue.held[SOON], queue.quota) + amount
    if entry.never:
        wanted = queue.never_held + amount
    if wanted > queue.quota and _acceptable(snapshot, queue, wanted):
        yield UnblockingChange(quota=(queue.name, wanted))
    yield from (UnblockingChange(stop=jobs) for jobs in _stops(snapshot, entry))


def _acceptable(snapshot: Snapshot, leaf: QueueNode, quota: int) -> bool:
    """Return whether the configuration would accept this quota; the default queue's is what the others
    leave.
    """
    if leaf.name == DEFAULT_QUEUE:
        return False
    raised = {node.name for node in leaf.path[1:] if node.full_quota < quota}
    queues = [
        replace(queue, quota=Quota.of(quota / GPU)) if queue.name in raised else queue
        for queue in snapshot.queue_list
        if queue.name != DEFAULT_QUEUE
    ]
    return not check_tree(queues, len(snapshot.pool.devices) * GPU)


def _smaller(snapshot: Snapshot, job: Job) -> Iterator[Request]:
    """Yield the same request with fewer replicas, largest first: as many as are free or inside quota, and
    powers of two.
    """
    request = job.spec.request
    if len(request.roles) != 1 or request.roles[0].replica.gpus != 1:
        return
    low = request.roles[0].replicas.low
    free = snapshot.pool.free[NOW] // GPU
    inside = snapshot.queue_of(job.spec.queue).quota_room() // GPU
    sizes = {min(free, low - 1), min(inside, low - 1)} | {1 << n for n in range(10) if 1 << n < low}
    for size in sorted((n for n in sizes if n >= 1), reverse=True):
        yield with_replicas(request, size)


def _stops(snapshot: Snapshot, entry: Entry) -> Iterator[tuple[JobId, ...]]:
    """Yield sets of jobs whose end might make room: one, then more, of the queue itself first."""
    nodes = entry.shape.nodes
    others = [
        other
        for other in _biggest(snapshot, entry.queue)
        if other.running and any(p.node.bit & nodes for p in other.places)
    ]
    if entry.lacks_allowance(entry.shape.minimum, SOON):
        others = [other for other in others if other.user == entry.user]
    others.sort(key=lambda o: (o.queue is not entry.queue, o.never, abs(o.held - entry.shape.minimum), o.age))
    for other in others[:STOPPABLE]:
        yield (other.id,)
    chosen: list[JobId] = []
    held = 0
    for other in others[:STOPPABLE]:
        chosen.append(other.id)
        held += other.held
        if held >= entry.shape.minimum and len(chosen) > 1:
            yield tuple(chosen)


def starts_with(snapshot: Snapshot, job: Job, change: UnblockingChange, now: float) -> bool:
    """Return whether the job would start, now or when others have left, after this change: simulated, also
    with the jobs that will be in line soon.
    """
    with _changed(snapshot, job, change):
        if not _played_starts(snapshot, job, now):
            return False
        late = [(entry.job, entry.blocked) for entry in snapshot.delayed(now + SOON_IN_LINE)]
        for other, blocked in late:
            snapshot.put(replace(other, not_before=0.0), blocked)
        snapshot.settled = None
        starts = not late or _played_starts(snapshot, job, now)
        for other, blocked in late:
            snapshot.put(other, blocked)
    return starts


def _played_starts(snapshot: Snapshot, job: Job, now: float) -> bool:
    """Return whether the job starts if every decision is carried out; everything is restored afterwards."""
    before: dict[JobId, Job] = {}
    last_starts = [(node, node.last_start) for node in snapshot.tree.by_name.values()]
    started = False
    for _ in range(ROUNDS):
        actions = decide(snapshot, now, patient=False).actions
        started = any(isinstance(action, Start) and action.job == job.id for action in actions)
        if started or not actions:
            break
        for action in actions:
            known = snapshot.entries[action.job].job
            before.setdefault(action.job, known)
            snapshot.put(_carried_out(known, action, now))
    for known in before.values():
        snapshot.put(known)
    for node, last_start in last_starts:
        node.last_start = last_start
    return started


def _carried_out(job: Job, action: Decision, now: float) -> Job:
    """Return the job after all others have carried out the decisions at once."""
    if isinstance(action, Start):
        started = replace(job, phase=Phase.RUNNING, seats=action.seats, started_at=now)
        return replace(started, made_room_for=None, guest_of=action.guest_of)
    if isinstance(action, Share):
        return with_share(job, action.share)
    if isinstance(action, Resize):
        staying = tuple(seat for seat in action.seats if not seat.leaving)
        return replace(job, seats=staying, made_room_for=action.preemptor)
    if isinstance(action, Pause):
        paused = replace(job, phase=Phase.PAUSED, seats=(), paused_by=PauseCause.SCHEDULER)
        return replace(paused, made_room_for=action.preemptor)
    return replace(job, phase=Phase.PENDING, seats=())


def _starts_alone(snapshot: Snapshot, job: Job, change: UnblockingChange, now: float) -> bool:
    """Check cheaply whether it would start if it were the first in line."""
    with _changed(snapshot, job, change):
        cycle = Cycle(snapshot, now)
        alone = cycle.could_seat(snapshot.entries[job.id])
        cycle.close()
    return alone


@contextmanager
def _changed(snapshot: Snapshot, job: Job, change: UnblockingChange) -> Iterator[None]:
    undo: list[Callable[[], None]] = []
    if change.request is not None or change.priority is not None:
        request = job.spec.request if change.request is None else change.request
        priority = job.spec.priority if change.priority is None else change.priority
        snapshot.put(replace(job, spec=replace(job.spec, request=request, priority=priority)))
        undo.append(lambda: snapshot.put(job))
    for name in change.stop:
        undo.append(_stopped(snapshot, snapshot.entries[name].job))
    if change.quota is not None or change.limit is not None:
        undo.append(lambda: snapshot.tree.set_capacity(snapshot.pool.capacity))
        if change.quota is not None:
            path = snapshot.tree.by_name[change.quota[0]].path[1:]
            undo += [_raise(node, "full_quota", change.quota) for node in path]
        if change.limit is not None:
            undo.append(_raise(snapshot.tree.by_name[change.limit[0]], "limit", change.limit))
        snapshot.tree.set_capacity(snapshot.pool.capacity)
    if change.user_limit is not None:
        undo.append(_raise(snapshot.allowances[change.user_limit[0]], "limit", change.user_limit))
    snapshot.settled = None
    try:
        yield
    finally:
        for step in reversed(undo):
            step()
        snapshot.settled = None  # the decision with the change says nothing about the case without it


def _stopped(snapshot: Snapshot, job: Job) -> Callable[[], None]:
    """Mark the job as ended; return the function that undoes it, with the learned data, which is dropped at
    its end.
    """
    outlook, tag = snapshot.outlooks.get(job.id), snapshot.tags.get(job.id)
    footprint = snapshot.footprints.get(job.id)
    snapshot.put(replace(job, phase=Phase.STOPPED, seats=()))

    def back() -> None:
        snapshot.put(job)
        if outlook is not None:
            snapshot.expect(job.id, outlook)
        if tag is not None:
            snapshot.note(job.id, tag)
        if footprint is not None:
            snapshot.gauge(job.id, footprint)

    return back


def _raise(node: QueueNode | Allowance, what: str, to: tuple[str, int]) -> Callable[[], None]:
    before: int = getattr(node, what)
    setattr(node, what, max(before, to[1]))
    return lambda: setattr(node, what, before)


def _say(snapshot: Snapshot, entry: Entry, fix: UnblockingChange | None) -> str:
    if fix is None:
        return ""
    if fix.request is not None and fix.request.mixed != entry.job.spec.request.mixed:
        return "let its GPUs be of unlike types (resources.mixed: true), at the speed of the slowest"
    if fix.request is not None:
        asked = entry.job.spec.request.roles[0].replicas
        return f"ask for {counted(str(fix.request.roles[0].replicas), 'GPU')} instead of {asked}"
    if fix.limit is not None:
        return f"raise the limit of {fix.limit[0]} to {gpus(fix.limit[1])}"
    if fix.user_limit is not None:
        return f"raise the limit of user {fix.user_limit[0]} to {gpus(fix.user_limit[1])}"
    if fix.quota is not None:
        return f"raise the quota of {fix.quota[0]} to {gpus(fix.quota[1])}"
    if fix.priority is not None:
        return f"submit it with priority {fix.priority} instead of {entry.priority}"
    names = ", ".join(f"{snapshot.entries[job].job.spec.name} ({job})" for job in fix.stop)
    return f"stop {names}"
