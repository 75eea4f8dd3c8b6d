"""Feasibility: can a request ever run? Checked on the pool with all its devices healthy and unallocated.

A request that no state of the pool can run is refused at once, with the nearest request that would fit,
instead of waiting without end.
"""

from bisect import bisect_left
from dataclasses import replace

from grus.model.identifiers import JobId
from grus.model.jobs import Job, Phase, Spec
from grus.model.queues import gpus
from grus.model.resources import GPU, Range, Request
from grus.model.texts.plural_words import counted
from grus.scheduler.cycle import Cycle
from grus.scheduler.queues.gpu_type_quota import typed_bar
from grus.scheduler.state.node_capacity_index import SOON
from grus.scheduler.state.snapshot import Snapshot


def never_fits(snapshot: Snapshot, spec: Spec) -> str:
    """Return "" if some state of the pool could run it; else the reason why not, with the nearest request
    that would fit.
    """
    known = snapshot.never_fits_cache
    name = (spec.request, spec.queue, spec.type, spec.node_selector, spec.affinity, spec.never_preempted)
    if name not in known:
        known[name] = _judge(snapshot.empty(), spec)
    return known[name]


def never_fits_at(snapshot: Snapshot, spec: Spec, size: Range) -> str:
    """Return the same for an elastic job that is to be kept at this size: the nearest is one of its own
    sizes.
    """
    empty, allowed = snapshot.empty(), spec.request.allowed
    low = next(n for n in allowed if n >= size.low)
    why = _why_not(empty, _at(spec, low))
    if not why:
        return ""
    first = bisect_left(allowed, True, key=lambda n: bool(_why_not(empty, _at(spec, n))))
    return f"{why}; the nearest size that fits is {allowed[first - 1]}" if first else why


def above_limit(snapshot: Snapshot, spec: Spec, limit: int) -> str:
    """Return "" if a user with this limit could ever run it; else the reason why not."""
    least = snapshot.empty().compile(_probe(spec)).minimum
    if least <= limit:
        return ""
    return (
        f"asks for at least {counted(gpus(least), 'GPU')}, but you may hold {gpus(limit)} at most; "
        "ask an administrator"
    )


def with_replicas(request: Request, size: int) -> Request:
    """Return a request of one role with another number of replicas as its smallest."""
    role = request.roles[0]
    high = role.replicas.high if not role.replicas.rigid else size
    return replace(request, roles=(replace(role, replicas=Range(size, high)),), sizes=())


def _at(spec: Spec, size: int) -> Spec:
    """Return the spec with its elastic role at exactly this size."""
    elastic = spec.request.elastic
    roles = tuple(
        replace(role, replicas=Range(size, size)) if role is elastic else role for role in spec.request.roles
    )
    return replace(spec, request=replace(spec.request, roles=roles, sizes=()))


def _judge(empty: Snapshot, spec: Spec) -> str:
    why = _why_not(empty, spec)
    nearest = _nearest(empty, spec) if why else 0
    return f"{why}; the nearest request that fits is gpu: {nearest}" if nearest else why


def _why_not(empty: Snapshot, spec: Spec) -> str:
    shape = empty.compile(_probe(spec))
    least, queue = shape.minimum, empty.queue_of(spec.queue)
    wanted = counted(gpus(least), "GPU")
    if why := _beyond_pool(empty, spec.request):
        return why
    for node in queue.path[1:]:
        if least > node.limit:
            return f"asks for at least {wanted}, but the limit of {node.name} is {gpus(node.limit)}"
        if spec.never_preempted and least > node.full_quota:
            rule = f"asks for {wanted}, and the quota of {node.name} is {gpus(node.full_quota)}"
            return f"is never preempted and so must stay inside quota, but {rule}"
    if _fits_empty(empty, spec):
        return ""
    if spec.never_preempted and (typed := typed_bar(empty.tree, empty.pool, queue, shape)):
        return f"is never preempted and so must stay inside quota, but {typed}"
    kinds = sorted({name for name, _ in empty.pool.kinds})
    types = sorted({name for role in spec.request.roles for name in role.replica.types} - set(kinds))
    if types:
        return f"no GPU of type {', '.join(types)} in the pool; there are {', '.join(kinds) or 'none'}"
    others = [leaf for leaf in empty.tree.leaves if leaf.reserved and leaf is not queue]
    if others and queue.breaks(least, empty.pool.capacity, SOON) == "reserved":
        names = ", ".join(f"{gpus(leaf.reserved)} for {leaf.name}" for leaf in others)
        return f"asks for {wanted} reserved for others ({names})"
    if len(shape.groups) > 1 and not shape.possible:
        numbers = ", ".join(f"{gpus(found)} {kind}" for kind, found in sorted(empty.pool.by_type.items()))
        return f"needs {wanted} of one type, and the pool has {numbers}; `mixed: true` lets types mix"
    most = max((len(node.devices) for node in empty.pool.nodes), default=0)
    nodes = counted(len(empty.pool.nodes), "node")
    size = f"{counted(len(empty.pool.devices), 'GPU')} on {nodes}, at most {most} on one"
    return f"asks for more than the pool could ever give it ({size})"


def _beyond_pool(empty: Snapshot, request: Request) -> str:
    """Return a sentence for a request of more whole GPUs than there are; "" if there are as many."""
    wanted = [(role.replica.types, role.replicas.low * role.replica.gpus) for role in request.roles]
    for types, number in [*wanted, ((), sum(number for _, number in wanted))]:
        there = sum(not types or state.type in types for state in empty.pool.devices)
        if there and number > there:
            which = f" of type {' or '.join(types)}" if types else ""
            rule = f"at least {counted(number, 'GPU')}{which}, and there are {there}"
            return f"asks for more than the pool could ever give it: {rule}"
    return ""


def _probe(spec: Spec) -> Job:
    return Job(id=JobId("probe"), spec=spec, user="", submitted_at=0.0)  # type: ignore[arg-type]  # nobody's


def _fits_empty(empty: Snapshot, spec: Spec) -> bool:
    empty.put(_probe(spec))
    cycle = Cycle(empty, 0.0)
    cycle.share()
    fits = bool(empty.entries[JobId("probe")].places)
    cycle.close()
    empty.put(replace(_probe(spec), phase=Phase.STOPPED))
    return fits


def _nearest(empty: Snapshot, spec: Spec) -> int:
    """Return the largest number of GPUs below the request that the empty pool could give; 0 if none."""
    request = spec.request
    if len(request.roles) != 1 or request.roles[0].replica.gpus != 1:
        return 0
    path = empty.queue_of(spec.queue).path[1:]
    most = min(node.full_quota if spec.never_preempted else node.limit for node in path)
    low, high = 0, min(request.roles[0].replicas.low - 1, len(empty.pool.devices))
    while low < high:
        middle = (low + high + 1) // 2
        smaller = replace(spec, request=with_replicas(request, middle))
        if middle * GPU <= most and _fits_empty(empty, smaller):
            low = middle
        else:
            high = middle - 1
    return low
