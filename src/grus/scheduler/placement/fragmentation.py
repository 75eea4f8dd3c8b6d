"""Fragmentation: the amount of the free GPUs that the usual jobs here could not use.

The idea is FGD's (Weng et al., USENIX ATC 2023): a free GPU is worth what the usual mix of requests can do
with it, and a job goes to the place at which this falls least. A sort of job cannot use
- the rest of a shared GPU, if it requests more;
- the whole GPUs of a node, if it is a gang of more than there are, or requests more host CPU or memory than
  the node has left.

FGD sees a node run out of CPU only when the next job does not fit. Here GPUs count as *stranded* as soon as
the host is too small to fill all of them with jobs like the mean of the mix. All values are whole numbers:
micro-GPUs times jobs of the mix.

The mix is taken from the snapshot: every job that runs or waits counts once. Without jobs all values are
zero, and the caller's own order decides.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from grus.model.resources import GPU

if TYPE_CHECKING:
    from grus.scheduler.state.node_capacity_index import NodeState, Pool
    from grus.scheduler.state.request_shapes import RoleShape, Shape


class Mix:
    """Mix of the jobs of a snapshot, by shape; kept up to date by it."""

    __slots__ = ("_counts", "_pool", "kept_weights")

    def __init__(self, pool: "Pool") -> None:
        self._pool = pool
        self._counts: dict[Shape, int] = {}
        self.kept_weights: dict[int, Weights] = {}
        """Weights by kind of device; recomputed after every change."""

    def count(self, shape: "Shape", step: int) -> None:
        """Add one job, or remove one."""
        if self.kept_weights:
            self.kept_weights.clear()
        number = self._counts.get(shape, 0) + step
        if number:
            self._counts[shape] = number
        else:
            del self._counts[shape]

    def weights(self, kind: int) -> "Weights":
        """Return the weights of the mix for devices of a kind."""
        found = self.kept_weights.get(kind)
        if found is None:
            found = self.kept_weights[kind] = Weights(self._sorts(kind))
        return found

    def _sorts(self, kind: int) -> "Iterable[_Sort]":
        memory = self._pool.kinds[kind][1]
        for shape, number in self._counts.items():
            for part in shape.parts:
                if part.unit and kind in part.kinds:
                    yield _sort(part, shape.one_node, memory, number)


class _Sort(NamedTuple):
    """Jobs with the same request to a kind of device."""

    number: int
    need: int
    """Micro-GPUs that one device must have free."""
    gpus: int
    """Whole GPUs that one node must have free; 0 for a slice."""
    cpu: int
    memory: int


def _sort(part: "RoleShape", one_node: bool, device_memory: int, number: int) -> _Sort:
    together = part.low if one_node else 1
    if part.gpus:
        return _Sort(number, GPU, part.gpus * together, part.cpu * together, part.memory * together)
    return _Sort(number, slice_share(part, device_memory), 0, part.cpu, part.memory)


def slice_share(part: "RoleShape", device_memory: int) -> int:
    """Return a slice's share of a device with that memory, in micro-GPUs."""
    if part.memory_slice:
        return -(-part.memory_slice * GPU // device_memory) if device_memory else GPU + 1
    return part.share


class Weights:
    """Mix prepared for queries. Every answer is in micro-GPUs times jobs of the mix."""

    __slots__ = ("_cpu", "_gangs", "_memory", "_needs", "cpu", "gpu", "hosts", "memory", "number")

    def __init__(self, sorts: "Iterable[_Sort]") -> None:
        known = list(sorts)
        self.number = sum(sort.number for sort in known)
        self.gpu = sum(sort.number * (sort.gpus * GPU or sort.need) for sort in known)
        self.cpu = sum(sort.number * sort.cpu for sort in known)
        self.memory = sum(sort.number * sort.memory for sort in known)
        """Total memory requested by all of them."""
        self.hosts = bool(self.cpu or self.memory)
        self._needs = _Beyond((sort.need, sort.number) for sort in known)
        self._gangs = _Beyond((sort.gpus, sort.number) for sort in known)
        self._cpu = _Beyond((sort.cpu, sort.number) for sort in known)
        self._memory = _Beyond((sort.memory, sort.number) for sort in known)

    def rest(self, free: int) -> int:
        """Return the loss in the free part of a shared device."""
        return free * self._needs.beyond(free)

    def gangs(self, whole: int) -> int:
        """Return the loss in so many whole GPUs of one node, because there are not more of them."""
        return whole * GPU * self._gangs.beyond(whole) if whole else 0

    def host(self, gpu: int, cpu: int | None, memory: int | None) -> int:
        """Return the loss in so much free GPU of a node, because its host has only this CPU and memory
        left.
        """
        usable, refused = gpu, 0
        if cpu is not None and self.cpu:
            usable = min(usable, cpu * self.gpu // self.cpu)
            refused = self._cpu.beyond(cpu)
        if memory is not None and self.memory:
            usable = min(usable, memory * self.gpu // self.memory)
            refused = max(refused, self._memory.beyond(memory))
        return (gpu - usable) * self.number + gpu * refused

    def host_growth(
        self, node: "NodeState", part: "RoleShape", replicas: int, taken: int, horizon: int
    ) -> int:
        """Return the increase of `host` of a node if replicas that take so much GPU together are put
        there.
        """
        cpu = None if node.cpu is None else node.cpu[horizon]
        memory = None if node.memory is None else node.memory[horizon]
        gpu = sum(device.free[horizon] for device in node.devices if device.open and device.free[horizon] > 0)
        return self.host(
            gpu - taken,
            None if cpu is None else cpu - part.cpu * replicas,
            None if memory is None else memory - part.memory * replicas,
        ) - self.host(gpu, cpu, memory)


class _Beyond:
    """Number of jobs that request more than an amount."""

    __slots__ = ("_amounts", "_upto")

    def __init__(self, asked: "Iterable[tuple[int, int]]") -> None:
        ordered = sorted(asked)
        self._amounts = [amount for amount, _ in ordered]
        self._upto = [0, *accumulate(number for _, number in ordered)]

    def beyond(self, amount: int) -> int:
        return self._upto[-1] - self._upto[bisect_right(self._amounts, amount)]
