"""The jobs and the pool of the sharing benchmark, and the books that every placement is entered in.

Modelled on what is public of Alibaba's GPU-sharing cluster of 2023 (cluster-trace-gpu-v2023; Weng et al.,
USENIX ATC 2023): 1,213 nodes with 6,212 GPUs; of the tasks with GPUs 44 % ask for a slice, 55 % for one GPU,
1 % for two, four or eight, and each asks for host CPU and memory. No row of the trace is used: slices are
drawn from a handful of usual sizes, CPU and memory from usual values, all rounded; there is one GPU type, and
tasks without GPUs are left out. Nodes are of the trace's sorts, about in its proportions.
"""

import random
from dataclasses import dataclass

from grus.model.identifiers import DeviceId, NodeId
from grus.model.nodes import Device, Node
from grus.model.resources import GPU

GB = 1_000_000_000
CORE = 1000


@dataclass(frozen=True, slots=True)
class Sort:
    """What a job asks for, all of it on one node: whole GPUs, or a share of one (micro-GPUs)."""

    gpus: int
    share: int
    cpu: int
    """Thousandths of a core."""
    memory: int
    """Bytes."""

    @property
    def asked(self) -> int:
        """Micro-GPUs."""
        return self.gpus * GPU or self.share

    @property
    def need(self) -> int:
        """Micro-GPUs that a device must have free to be of use."""
        return GPU if self.gpus else self.share


def _sorts() -> dict[Sort, float]:
    """Sorts with their weights."""
    slices = [  # percent of a GPU, cores, GB, weight
        (16, 4, 16, 2),
        (22, 8, 30, 5),
        (32, 4, 24, 6),
        (32, 8, 30, 5),
        (47, 8, 30, 8),
        (47, 12, 48, 4),
        (48, 4, 24, 3),
        (59, 3, 6, 3),
        (65, 8, 30, 3),
        (65, 12, 48, 2),
        (81, 3, 6, 7),
    ]
    whole = [  # GPUs, cores, GB, weight
        (1, 2, 16, 1),
        (1, 4, 24, 6),
        (1, 8, 32, 6),
        (1, 10, 40, 6),
        (1, 11, 48, 13),
        (1, 12, 24, 6),
        (1, 16, 32, 9),
        (1, 16, 120, 2),
        (1, 19, 64, 4),
        (1, 24, 90, 1),
        (2, 16, 64, 0.3),
        (4, 32, 128, 0.3),
        (8, 88, 320, 0.6),
    ]
    found = {Sort(0, p * GPU // 100, c * CORE, m * GB): float(w) for p, c, m, w in slices}
    return found | {Sort(g, 0, c * CORE, m * GB): float(w) for g, c, m, w in whole}


SORTS = _sorts()
NODES = (  # how many in a thousand, GPUs, cores, GB of host memory
    (440, 8, 96, 384),
    (40, 8, 128, 768),
    (20, 8, 96, 768),
    (15, 8, 64, 256),
    (40, 4, 32, 128),
    (30, 4, 96, 384),
    (310, 2, 104, 512),
    (105, 2, 16, 120),
)


def make_nodes(number: int, hosts: bool = True) -> tuple[Node, ...]:
    """About so many nodes; without `hosts`, what a host has is not counted."""
    nodes: list[Node] = []
    for part, gpus, cores, memory in NODES:
        for _ in range(max(1, round(part * number / 1000))):
            name = NodeId(f"node-{len(nodes):05}")
            devices = tuple(Device(DeviceId(f"{name}/{i}"), "GPU", 16 * GB) for i in range(gpus))
            cpu, most = (cores * CORE, memory * GB) if hosts else (None, None)
            nodes.append(Node(name, devices, cpu=cpu, memory=most))
    return tuple(nodes)


def draw(seed: int, asked: int) -> list[Sort]:
    """Jobs in the order in which they come, until together they ask for so many micro-GPUs."""
    chance = random.Random(seed)
    sorts, weights = list(SORTS), list(SORTS.values())
    found: list[Sort] = []
    while asked > 0:
        (sort,) = chance.choices(sorts, weights)
        found.append(sort)
        asked -= sort.asked
    return found


class Machine:
    """One node in the books: what is free on it."""

    __slots__ = ("cpu", "free", "memory")

    def __init__(self, node: Node) -> None:
        self.free = [GPU] * len(node.devices)
        self.cpu = node.cpu if node.cpu is not None else 1 << 62
        self.memory = node.memory if node.memory is not None else 1 << 62

    @property
    def state(self) -> "State":
        return (tuple(self.free), self.cpu, self.memory)

    def book(self, sort: Sort, devices: tuple[int, ...]) -> None:
        """Enter a placement; one that does not fit is a defect of the rule that made it."""
        for device in devices:
            self.free[device] -= sort.need
        self.cpu -= sort.cpu
        self.memory -= sort.memory
        assert len(set(devices)) == max(1, sort.gpus), f"{sort} got {len(devices)} devices"
        assert min(*self.free, self.cpu, self.memory) >= 0, f"{sort} does not fit"


State = tuple[tuple[int, ...], int, int]
"""What is free on a node: of each device, of CPU, of memory."""


def unusable(state: State) -> float:
    """FGD's measure of a node: the free GPU, in micro-GPUs, that a job of the mix cannot use, on average."""
    free, cpu, memory = state
    whole, most, total = free.count(GPU), max(free), sum(free)
    lost = 0.0
    for sort, weight in SORTS.items():
        if cpu < sort.cpu or memory < sort.memory or whole < sort.gpus or most < sort.need:
            lost += weight * total
        else:
            lost += weight * sum(amount for amount in free if amount < sort.need)
    return lost / sum(SORTS.values())
