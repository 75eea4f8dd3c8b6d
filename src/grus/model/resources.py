"""Resource requests of a job: GPUs whole or in slices, host CPU and memory, in ranges.

Amounts of GPU are integers in micro-GPUs, so that sums are exact and decisions repeat to the byte.
"""

from dataclasses import dataclass

from grus.model.execution_plans import Way

GPU = 1_000_000
"""One whole GPU, in micro-GPUs: the unit of every quota, share and holding."""


@dataclass(frozen=True, slots=True)
class Range:
    """Any whole number from `low` to `high`; rigid when both are equal."""

    low: int
    high: int

    @property
    def rigid(self) -> bool:
        return self.low == self.high

    def __str__(self) -> str:
        return str(self.low) if self.rigid else f"{self.low}..{self.high}"


def replica_words(size: Range | str) -> str:
    """Return the size of a served model, for any size of replica: 1 replica, 2..4 replicas."""
    return f"{size} replica{'' if str(size) == '1' else 's'}"


@dataclass(frozen=True, slots=True)
class Replica:
    """Resources of one replica of a role, all of them on one node.

    Exactly one of `gpus`, `share` and `gpu_memory` is above zero, or none for a replica without a GPU.
    """

    gpus: int = 1
    """Whole GPUs."""
    share: int = 0
    """A fraction of one GPU, in micro-GPUs."""
    gpu_memory: int = 0
    """A slice of one GPU by memory, in bytes; it counts as its share of the device that it is on."""
    types: tuple[str, ...] = ()
    """GPU types that will do; empty for any."""
    cpu: int = 0
    """Host CPU in thousandths of a core, for the whole replica; 0 for any amount."""
    memory: int = 0
    """Host memory in bytes, for the whole replica; 0 for any amount."""

    def share_of(self, device_memory: int) -> int:
        """Return a slice's share of a device with that memory, in micro-GPUs; above GPU if it cannot fit."""
        if self.gpu_memory:
            return -(-self.gpu_memory * GPU // device_memory) if device_memory else GPU + 1
        return self.share


@dataclass(frozen=True, slots=True)
class Role:
    """A template of the gang: how many replicas, what each takes, and what it runs (else the job's own)."""

    name: str
    replicas: Range
    replica: Replica
    run: tuple[str, ...] = ()
    image: str = ""
    """Image of its containers, on Kubernetes; empty for the job's own."""
    pod: str = ""
    """Its pod overrides, applied over those of the job, as `Spec.pod`."""


@dataclass(frozen=True, slots=True)
class Request:
    """Request of a gang: all of its roles at their minima, or nothing. At most one role has a range."""

    roles: tuple[Role, ...]
    sizes: tuple[int, ...] = ()
    """The only numbers of replicas that the elastic role can use, ascending; empty for all in its range."""
    one_node: bool = False
    """All replicas on one node (a single process sees all the GPUs)."""
    shares: bool = False
    """Its one GPU may be shared with another job that allows it too, where that pays for both together."""
    auto: bool = False
    """True while Grus has yet to choose its size; until then the roles have one whole GPU."""
    ways: tuple[Way, ...] = ()
    """Execution plans of a training that leaves its size to Grus; empty if none could be estimated."""
    how: tuple[str, ...] = ()
    """Strategies of the chosen execution plan, which its workers must switch on."""
    mixed: bool = False
    """Its GPUs may be of unlike types; else all are of one type, as a gang is as fast as its slowest GPU."""

    @property
    def elastic(self) -> Role | None:
        """Role whose number of replicas may vary."""
        return next((role for role in self.roles if not role.replicas.rigid), None)

    @property
    def allowed(self) -> tuple[int, ...]:
        """Allowed numbers of replicas of the elastic role, ascending; empty for a rigid request."""
        role = self.elastic
        if role is None:
            return ()
        low, high = role.replicas.low, role.replicas.high
        return tuple(n for n in self.sizes if low <= n <= high) or tuple(range(low, high + 1))
