"""Whether a request could ever run: asked of the pool with all its devices sound and nobody on them.

What no state of the pool can run is refused at once, with the nearest request that would fit, instead of
waiting for ever.
"""

from bisect import bisect_left
from dataclasses import replace

from grus.model.identifiers import JobId
from grus.model.jobs import Job, Phase, Spec
from grus.model.queues import gpus
from grus.model.resources import GPU, Range, Request
from grus.scheduling.cycle import Cycle
from grus.scheduling.snapshot import Snapshot
from grus.scheduling.topology import SOON
from grus.scheduling.typed_quota import typed_bar


def never_fits(snapshot: Snapshot, spec: Spec) -> str:
    """ "" if some state of the pool could run it; else why not, with the nearest request that would."""
    known = snapshot.never_fits_cache
    name = (spec.request, spec.queue, spec.type, spec.node_selector, spec.affinity, spec.never_preempted)
    if name not in known:
        known[name] = _judge(snapshot.empty(), spec)
    return known[name]


def never_fits_at(snapshot: Snapshot, spec: Spec, size: Range) -> str:
    """The same for an elastic job that is to be kept at this size: the nearest is one of its own sizes."""
    empty, allowed = snapshot.empty(), spec.request.allowed
    low = next(n for n in allowed if n >= size.low)
    why = _why_not(empty, _at(spec, low))
    if not why:
        return ""
    first = bisect_left(allowed, True, key=lambda n: bool(_why_not(empty, _at(spec, n))))
    return f"{why}; the nearest size that fits is {allowed[first - 1]}" if first else why


def with_replicas(request: Request, size: int) -> Request:
    """A request of one role with another number of replicas as its smallest."""
    role = request.roles[0]
    high = role.replicas.high if not role.replicas.rigid else size
    return replace(request, roles=(replace(role, replicas=Range(size, high)),), sizes=())


def _at(spec: Spec, size: int) -> Spec:
    """The spec with its elastic role at exactly this size."""
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
    if why := _beyond_pool(empty, spec.request):
        return why
    for node in queue.path[1:]:
        if least > node.limit:
            return f"asks for at least {gpus(least)} GPUs, but the limit of {node.name} is {gpus(node.limit)}"
        if spec.never_preempted and least > node.full_quota:
            rule = f"asks for {gpus(least)} GPUs, and the quota of {node.name} is {gpus(node.full_quota)}"
            return f"is never preempted and so must stay inside quota, but {rule}"
    if _fits_empty(empty, spec):
        return ""
    if spec.never_preempted and (typed := typed_bar(empty.tree, empty.pool, queue, shape)):
        return f"is never preempted and so must stay inside quota, but {typed}"
    kinds = sorted({name for name, _ in empty.pool.kinds})
    wanted = sorted({name for role in spec.request.roles for name in role.replica.types} - set(kinds))
    if wanted:
        return f"no GPU of type {', '.join(wanted)} in the pool; there are {', '.join(kinds) or 'none'}"
    others = [leaf for leaf in empty.tree.leaves if leaf.reserved and leaf is not queue]
    if others and queue.breaks(least, empty.pool.capacity, SOON) == "reserved":
        names = ", ".join(f"{gpus(leaf.reserved)} for {leaf.name}" for leaf in others)
        return f"asks for {gpus(least)} GPUs that are reserved for others ({names})"
    if len(shape.groups) > 1 and not shape.possible:
        numbers = ", ".join(f"{gpus(found)} {kind}" for kind, found in sorted(empty.pool.by_type.items()))
        return (
            f"needs {gpus(least)} GPUs of one type, and the pool has {numbers}; `mixed: true` lets types mix"
        )
    most = max((len(node.devices) for node in empty.pool.nodes), default=0)
    nodes = len(empty.pool.nodes)
    size = f"{len(empty.pool.devices)} GPUs on {nodes} node{'' if nodes == 1 else 's'}, at most {most} on one"
    return f"asks for more than the pool could ever give it ({size})"


def _beyond_pool(empty: Snapshot, request: Request) -> str:
    """Sentence for a request of more whole GPUs than there are; "" if there are as many."""
    wanted = [(role.replica.types, role.replicas.low * role.replica.gpus) for role in request.roles]
    for types, number in [*wanted, ((), sum(number for _, number in wanted))]:
        there = sum(not types or state.type in types for state in empty.pool.devices)
        if there and number > there:
            which = f" of type {' or '.join(types)}" if types else ""
            rule = f"at least {number} GPUs{which}, and there are {there}"
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
    """The largest number of GPUs below what was asked that the empty pool could give; 0 if none."""
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
