"""Random pools, trees of queues and jobs that the specification allows."""

from dataclasses import replace

from hypothesis import strategies as st

from grus.model.jobs import Job
from grus.model.nodes import Health, Node
from grus.model.queues import Queue
from grus.model.resources import GPU, Role
from tests.scheduler.builders import Gpus, a_job, a_pool, a_queue, a_role, with_device

TYPES = ["A100", "RTX3060", "T4"]
SLICES: list[Gpus] = [0.5, 0.25, 0.7, "6GB", "8GB", "20GB"]
OF_A_TYPE: list[Gpus] = [1, 2, "1..3"]


@st.composite
def pools(draw: st.DrawFn) -> tuple[Node, ...]:
    """One to three kinds of node with one to four GPUs each; some GPUs unhealthy or used from outside."""
    parts = [
        f"{draw(st.integers(1, 2))}x{draw(st.integers(1, 4))}:{kind}"
        for kind in draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True))
    ]
    labels = {f"n{i}": {"disk": "nvme"} for i in range(1, 7) if draw(st.booleans())}
    nodes = a_pool("+".join(parts), island=draw(st.sampled_from([0, 2])), labels=labels)
    for device in [d.id for node in nodes for d in node.devices]:
        state = draw(st.integers(0, 11))
        if state == 0:
            nodes = with_device(nodes, device, health=Health.QUARANTINED)
        elif state == 1:
            nodes = with_device(nodes, device, outside="pid 1 python")
    if draw(st.integers(0, 4)) == 0:
        nodes = tuple(replace(node, cpu=draw(st.integers(0, 4)) * 2000) for node in nodes)
    return nodes


def size_of(nodes: tuple[Node, ...]) -> int:
    return sum(device.usable for node in nodes for device in node.devices)


@st.composite
def trees(draw: st.DrawFn, pool: int) -> list[Queue]:
    """Queues whose quotas and reserved sum to at most their parent's; about a third have children."""
    queues: list[Queue] = []
    left = pool
    for i in range(draw(st.integers(1, 4))):
        quota = draw(st.integers(0, left))
        left -= quota
        top = draw(_queue(f"q{i}", quota, None))
        queues.append(top)
        if draw(st.integers(0, 2)) == 0:
            queues += draw(_children(top))
    return queues


@st.composite
def _children(draw: st.DrawFn, parent: Queue) -> list[Queue]:
    found: list[Queue] = []
    quota, reserved = parent.quota.total // GPU, parent.reserved // GPU
    for j in range(draw(st.integers(1, 3))):
        part = draw(st.integers(0, quota))
        child = draw(_queue(f"{parent.name}.{j}", part, parent))
        child = replace(child, reserved=min(child.reserved, reserved * GPU))
        quota -= part
        reserved -= child.reserved // GPU
        found.append(child)
    return found


@st.composite
def _queue(draw: st.DrawFn, name: str, quota: int, parent: Queue | None) -> Queue:
    reserved = draw(st.integers(0, quota)) if draw(st.integers(0, 3)) == 0 else 0
    limit = quota + draw(st.integers(0, 3)) if draw(st.integers(0, 3)) == 0 else None
    weight = draw(st.sampled_from([1.0, 1.0, 2.0, 0.5]))
    above = parent.name if parent else None
    return a_queue(name, quota=quota, reserved=reserved, limit=limit, weight=weight, parent=above)


@st.composite
def jobs(draw: st.DrawFn, name: str, leaves: list[str]) -> Job:
    """Rigid, gang, elastic, with sizes, slices, roles; of several users, types and priorities."""
    kind = draw(st.sampled_from(["single", "single", "gang", "elastic", "sizes", "slice", "roles", "typed"]))
    gpus: Gpus = 1
    sizes: list[int] = []
    roles: list[Role] = []
    types: list[str] = []
    if kind == "gang":
        gpus = draw(st.integers(2, 5))
    elif kind == "elastic":
        low = draw(st.integers(1, 3))
        gpus = f"{low}..{low + draw(st.integers(1, 5))}"
    elif kind == "sizes":
        gpus, sizes = "1..8", draw(st.sampled_from([[1, 2, 4], [2, 4, 8], [3, 6]]))
    elif kind == "slice":
        gpus = draw(st.sampled_from(SLICES))
    elif kind == "roles":
        roles = draw(_roles())
    elif kind == "typed":
        types, gpus = [draw(st.sampled_from(TYPES))], draw(st.sampled_from(OF_A_TYPE))
    return a_job(
        name,
        queue=draw(st.sampled_from(leaves)),
        gpus=gpus,
        sizes=sizes,
        roles=roles,
        types=types,
        one_node=draw(st.integers(0, 3)) == 0,
        type=draw(st.sampled_from(["train", "train", "train", "dev"])),
        priority=draw(st.sampled_from([None, None, None, 10, 60, 75, 125])),
        user=draw(st.sampled_from(["ann", "ann", "ann", "bob"])),
        max_runtime=draw(st.sampled_from([None, None, 100.0, 2000.0])),
        retries=draw(st.integers(0, 2)),
        node_selector={"disk": "nvme"} if draw(st.integers(0, 7)) == 0 else None,
        avoid_nodes=["n1"] if draw(st.integers(0, 9)) == 0 else [],
    )


@st.composite
def _roles(draw: st.DrawFn) -> list[Role]:
    cpu = draw(st.sampled_from([0, 0, 1000]))
    worker = a_role("worker", draw(st.sampled_from(["1..3", "2", "1..2"])), draw(st.integers(1, 2)), cpu=cpu)
    other = a_role("launcher", 1, draw(st.sampled_from([0, 0, 1, 0.5])), cpu=cpu)
    return [other, worker]
