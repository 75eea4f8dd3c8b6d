"""A naive reference of the scheduling quantities: from the list of jobs, exact, slow, obviously right.

No index, no cache, no floating point: every function walks all jobs of `Facts` and says one sentence of the
specification. It must never import from grus.scheduler; that is what it is compared with.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from grus.model.identifiers import DeviceId, JobId, NodeId, QueueName, UserName
from grus.model.jobs import Desired, Job, PauseCause, Phase
from grus.model.nodes import Device, Health, Node
from grus.model.queues import Queue
from grus.model.resources import GPU, Range, Replica, Role


@dataclass(frozen=True, slots=True)
class Facts:
    """All there is to know at one moment."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    jobs: tuple[Job, ...]
    blocked: frozenset[JobId] = frozenset()
    now: float = 0.0
    user_limits: Mapping[UserName, int] = field(default_factory=dict)


def without_guests(facts: Facts) -> Facts:
    """The same as if nobody were a guest on another's GPU: by this the rules are judged."""
    return replace(facts, jobs=tuple(_without_guests(job) for job in facts.jobs))


def _without_guests(job: Job) -> Job:
    if not job.spec.request.shares or not job.seats:
        return job
    whole = tuple(replace(seat, share=GPU) for seat in job.seats)
    return replace(job, seats=() if job.guest_of is not None else whole)


# ------------------------------------------------------------------------------------------------ pool


def devices(facts: Facts) -> dict[DeviceId, tuple[Node, Device]]:
    return {device.id: (node, device) for node in facts.nodes for device in node.devices}


def pool(facts: Facts) -> int:
    """Micro-GPUs of the devices that are healthy and not used from outside."""
    return sum(GPU for _, device in devices(facts).values() if device.usable)


def device_use(facts: Facts) -> dict[DeviceId, int]:
    """What is held of each device, the leaving seats included."""
    use = dict.fromkeys(devices(facts), 0)
    for job in facts.jobs:
        for seat in job.seats:
            for device in seat.devices:
                use[device] = use.get(device, 0) + seat.share
    return use


def host_use(facts: Facts) -> dict[NodeId, tuple[int, int]]:
    """CPU and host memory held on each node."""
    use = {node.id: (0, 0) for node in facts.nodes}
    for job in facts.jobs:
        replicas = {role.name: role.replica for role in job.spec.request.roles}
        for seat in job.seats:
            cpu, memory = use.get(seat.node, (0, 0))
            use[seat.node] = (cpu + replicas[seat.role].cpu, memory + replicas[seat.role].memory)
    return use


# ------------------------------------------------------------------------------------------------ jobs


def elastic_range(job: Job) -> Range | None:
    """The range in force of the elastic role: the spec's, or what `scale` has set."""
    role = job.spec.request.elastic
    if role is None:
        return None
    return job.size or role.replicas


def counts(job: Job) -> dict[str, tuple[int, ...]]:
    """Allowed numbers of replicas of each role."""
    allowed: dict[str, tuple[int, ...]] = {}
    for role in job.spec.request.roles:
        size = elastic_range(job) if role is job.spec.request.elastic else None
        if size is None:
            allowed[role.name] = (role.replicas.low,)
        else:
            sizes = job.spec.request.sizes
            numbers = tuple(range(size.low, size.high + 1))
            allowed[role.name] = tuple(n for n in numbers if not sizes or n in sizes)
    return allowed


def amount(facts: Facts, replica: Replica) -> int:
    """What one waiting replica counts: a memory slice as its share of the largest device allowed."""
    if not replica.gpu_memory:
        return replica.gpus * GPU + replica.share
    memories = [
        device.memory
        for _, device in devices(facts).values()
        if not replica.types or device.type in replica.types
    ]
    return replica.share_of(max(memories, default=0))


def minimum(facts: Facts, job: Job) -> int:
    """Micro-GPUs of the smallest allowed gang; of a holder, as its seats are."""
    return sum(_of_role(facts, job, role, min(counts(job)[role.name])) for role in job.spec.request.roles)


def maximum(facts: Facts, job: Job) -> int:
    return sum(_of_role(facts, job, role, max(counts(job)[role.name])) for role in job.spec.request.roles)


def _of_role(facts: Facts, job: Job, role: Role, number: int) -> int:
    seated = sorted(seat.held for seat in job.staying if seat.role == role.name)
    each = seated[0] if seated and role.replica.gpu_memory else amount(facts, role.replica)
    return number * each


def holds(job: Job) -> bool:
    """Runs, and nobody has asked it to end or to pause."""
    return job.phase in (Phase.STARTING, Phase.RUNNING) and job.desired is Desired.RUN and bool(job.staying)


def waits(facts: Facts, job: Job) -> bool:
    """Wants GPUs and may be started now."""
    if job.desired is not Desired.RUN or job.id in facts.blocked or job.not_before > facts.now:
        return False
    if job.phase is Phase.PAUSED:
        return job.paused_by is PauseCause.SCHEDULER
    return job.phase is Phase.PENDING


def wants(facts: Facts, job: Job) -> bool:
    """Counts in its queue's demand: running, on its way back to waiting, or startable."""
    pausing = job.phase is Phase.PAUSING and job.paused_by is PauseCause.SCHEDULER
    return holds(job) or waits(facts, job) or (pausing and job.desired is Desired.RUN)


# ---------------------------------------------------------------------------------------------- queues


def children(facts: Facts, parent: QueueName | None) -> list[Queue]:
    return sorted((q for q in facts.queues if q.parent == parent), key=lambda q: q.name)


def chain(facts: Facts, name: QueueName) -> list[Queue]:
    """The queue and all above it, from the leaf up."""
    by_name = {queue.name: queue for queue in facts.queues}
    found = []
    at: QueueName | None = name
    while at is not None:
        found.append(by_name[at])
        at = by_name[at].parent
    return found


def members(facts: Facts, name: QueueName) -> list[Job]:
    """Jobs of the branch."""
    return [job for job in facts.jobs if name in {q.name for q in chain(facts, job.spec.queue)}]


def held(facts: Facts, name: QueueName) -> int:
    """Micro-GPUs held in the branch; what is leaving still counts."""
    return sum(job.held for job in members(facts, name))


def claimed(facts: Facts, parent: QueueName | None = None) -> int:
    """Sum of max(held, reserved) over the queues below `parent`; a branch holds what its children claim."""
    total = 0
    for queue in children(facts, parent):
        leaf = not children(facts, queue.name)
        below = held(facts, queue.name) if leaf else claimed(facts, queue.name)
        total += max(below, queue.reserved)
    return total


def never_preempted(facts: Facts, name: QueueName) -> int:
    """Minima of the branch's running never-preempted jobs."""
    return sum(
        min(minimum(facts, job), job.held)
        for job in members(facts, name)
        if job.spec.never_preempted and holds(job)
    )


def never_preempted_by_type(facts: Facts, queue: Queue) -> dict[str, int]:
    """The same by entry of a quota by type; of an elastic job the seats with the lowest numbers count."""
    numbers, found = dict(queue.quota.by_type), dict[str, int]()
    for job in members(facts, queue.name):
        if not (job.spec.never_preempted and holds(job)):
            continue
        elastic, least = job.spec.request.elastic, elastic_range(job)
        mine = sorted(job.staying, key=lambda seat: seat.index)
        if elastic is not None and least is not None:
            some = [seat for seat in mine if seat.role == elastic.name][: least.low]
            mine = [seat for seat in mine if seat.role != elastic.name] + some
        for seat in mine:
            for device in seat.devices:
                kind = devices(facts)[device][1].type
                key = kind if kind in numbers else "any"
                found[key] = found.get(key, 0) + seat.share
    return found


def effective_quotas(facts: Facts) -> dict[QueueName, Fraction]:
    """reserved + (quota − reserved) × f where the room (the pool, the parent's quota) is below the sum."""
    quotas: dict[QueueName, Fraction] = {}

    def spread(parent: QueueName | None, room: Fraction) -> None:
        below = children(facts, parent)
        total = sum(q.quota.total for q in below)
        lent = sum(q.quota.total - q.reserved for q in below)
        factor = Fraction(1)
        if total > room and lent:
            factor = max(Fraction(0), (room - sum(q.reserved for q in below)) / lent)
        for q in below:
            quotas[q.name] = q.reserved + (q.quota.total - q.reserved) * factor
            spread(q.name, quotas[q.name])

    spread(None, Fraction(pool(facts)))
    return quotas


# ------------------------------------------------------------------------------------------ fair share


def demand(facts: Facts, queue: Queue) -> int:
    """Maxima of what runs and may start, capped by the limit; a branch adds its children's idle reserved."""
    below = children(facts, queue.name)
    if below:
        total = sum(demand(facts, q) + idle_reserved(facts, q) for q in below)
    else:
        total = sum(maximum(facts, job) for job in members(facts, queue.name) if wants(facts, job))
    return total if queue.limit is None else min(total, queue.limit)


def idle_reserved(facts: Facts, queue: Queue) -> int:
    """Reserved GPUs that the queue does not even want: lent to nobody."""
    return max(0, queue.reserved - demand(facts, queue))


def water_fill(
    rest: Fraction, wishes: Mapping[QueueName, Fraction], weights: Mapping[QueueName, float]
) -> dict[QueueName, Fraction]:
    """Share `rest` by weight among the wishes; whoever is full leaves the remainder to the others."""
    given = dict.fromkeys(wishes, Fraction(0))
    while rest > 0:
        open_ = [name for name in wishes if given[name] < wishes[name]]
        if not open_:
            break
        weight = {name: Fraction(weights[name]) for name in open_}
        level = min((wishes[name] - given[name]) / weight[name] for name in open_)
        level = min(level, rest / sum(weight.values()))
        for name in open_:
            given[name] += level * weight[name]
        rest -= level * sum(weight.values())
    return given


def fair_shares(facts: Facts) -> tuple[dict[QueueName, Fraction], dict[QueueName, Fraction]]:
    """Exact and rounded fair share of every queue, what it deserves and does not want left out."""
    exact: dict[QueueName, Fraction] = {}
    rounded: dict[QueueName, Fraction] = {}
    quotas = effective_quotas(facts)

    def share_out(parent: QueueName | None, room: Fraction) -> None:
        below = children(facts, parent)
        wish = {q.name: Fraction(demand(facts, q)) for q in below}
        base = {q.name: min(quotas[q.name], wish[q.name]) for q in below}
        rest = room - sum(base.values()) - sum(idle_reserved(facts, q) for q in below)
        more = water_fill(rest, {n: wish[n] - base[n] for n in wish}, {q.name: q.weight for q in below})
        for q in below:
            exact[q.name] = base[q.name] + more[q.name]
        rounded.update(largest_remainder({q.name: exact[q.name] for q in below}, wish))
        for q in below:
            share_out(q.name, rounded[q.name])

    share_out(None, Fraction(pool(facts)))
    return exact, rounded


def largest_remainder(
    exact: Mapping[QueueName, Fraction], wish: Mapping[QueueName, Fraction]
) -> dict[QueueName, Fraction]:
    """Whole GPUs; those whose wish is met stay as they are. Equal remainders: by name."""
    unmet = sorted(name for name in exact if exact[name] < wish[name])
    whole = {name: exact[name] // GPU * GPU for name in unmet}
    left = (sum(exact[name] for name in unmet) - sum(whole.values())) // GPU
    for name in sorted(unmet, key=lambda n: (whole[n] - exact[n], n))[: int(left)]:
        whole[name] += GPU
    return {name: Fraction(whole.get(name, exact[name])) for name in exact}


# ---------------------------------------------------------------------------------------- inside quota


@dataclass(frozen=True, slots=True)
class Piece:
    """What of a job is inside its leaf queue's quota."""

    minimum: bool
    surplus: Fraction


def inside(facts: Facts, leaf: QueueName) -> dict[JobId, Piece]:
    """The walk, literally: minima by priority, running before waiting, age; then surplus if all minima fit.

    For queues of one user, where users' shares decide nothing.
    """
    jobs = [job for job in facts.jobs if job.spec.queue == leaf and (holds(job) or waits(facts, job))]
    order = sorted(jobs, key=lambda j: (-j.spec.priority, not holds(j), j.submitted_at, j.id))
    left = effective_quotas(facts)[leaf]
    fits: dict[JobId, bool] = {}
    for job in order:
        fits[job.id] = minimum(facts, job) <= left
        if fits[job.id]:
            left -= minimum(facts, job)
    pieces = {}
    for job in order:
        extra = Fraction(0)
        if all(fits.values()):
            extra = min(left, Fraction(maximum(facts, job) - minimum(facts, job)))
            left -= extra
        pieces[job.id] = Piece(fits[job.id], extra)
    return pieces


# ------------------------------------------------------------------------------------------- placement


def may_use(facts: Facts, job: Job, node: Node, device: Device | None, replica: Replica) -> bool:
    """Whether a new seat of the job may be there at all."""
    labels = dict(node.labels)
    above = {q.name for q in chain(facts, job.spec.queue)}
    owners = [q.name for q in facts.queues if node.id in q.nodes]
    return (
        not node.cordoned
        and all(labels.get(key) == value for key, value in job.spec.node_selector)
        and node.id not in job.spec.affinity.avoid_nodes
        and (not owners or any(name in above for name in owners))
        and (device is None or device.usable)
        and (device is None or not replica.types or device.type in replica.types)
    )


def fits_now(facts: Facts, job: Job, most: Fraction | int | None = None) -> bool:
    """Whether the smallest gang can be seated in what is free, counting for at most so much there: true only
    when a seating was found."""
    room = {name: GPU - use for name, use in device_use(facts).items()}
    replicas = [role.replica for role in job.spec.request.roles for _ in range(min(counts(job)[role.name]))]
    left = Fraction(GPU * len(room) if most is None else most)
    return any(
        _seat_all(facts, job, chosen, dict(room), nodes, left)
        for chosen in _of_one_type(facts, job, replicas)
        for nodes in ([(node,) for node in facts.nodes] if job.spec.request.one_node else [facts.nodes])
    )


def _of_one_type(facts: Facts, job: Job, replicas: list[Replica]) -> list[list[Replica]]:
    """The gang on each type of GPU by itself, but for replicas that cannot be there."""
    if job.spec.request.mixed:
        return [replicas]
    kinds = sorted({device.type for _, device in devices(facts).values()})
    return [
        [replace(r, types=(kind,)) if not r.types or kind in r.types else r for r in replicas]
        for kind in kinds
    ]


def _seat_all(
    facts: Facts,
    job: Job,
    replicas: list[Replica],
    room: dict[DeviceId, int],
    nodes: Iterable[Node],
    left: Fraction,
) -> bool:
    """Depth-first over nodes; on a node the first devices that will do. Host CPU and memory: not judged."""
    if not replicas:
        return True
    replica, rest = replicas[0], replicas[1:]
    if replica.cpu or replica.memory:
        return False
    for node in nodes:
        for choice in _choices(facts, job, replica, room, node):
            after = dict(room)
            for device, share in choice:
                after[device] -= share
            counted = sum(share for _, share in choice)
            if counted <= left and _seat_all(facts, job, rest, after, nodes, left - counted):
                return True
    return False


def _choices(
    facts: Facts, job: Job, replica: Replica, room: Mapping[DeviceId, int], node: Node
) -> list[list[tuple[DeviceId, int]]]:
    if not may_use(facts, job, node, None, replica):
        return []
    usable = [d for d in node.devices if may_use(facts, job, node, d, replica)]
    if replica.gpus:
        free = [d for d in usable if room[d.id] == GPU]
        return [[(d.id, GPU) for d in free[: replica.gpus]]] if len(free) >= replica.gpus else []
    if not replica.share and not replica.gpu_memory:
        return [[]]
    shares = [(d.id, replica.share_of(d.memory)) for d in usable]
    return [[(name, share)] for name, share in shares if share <= room[name]]


def unhealthy(facts: Facts) -> frozenset[DeviceId]:
    return frozenset(name for name, (_, d) in devices(facts).items() if d.health is not Health.HEALTHY)
