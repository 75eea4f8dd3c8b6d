"""One pod of this node, as the agent tracks it: the object, its volume, and the actions so far."""

from dataclasses import dataclass, field

from grus.kubernetes.agent.pods import AssignedPod
from grus.kubernetes.agent.volume import Volume
from grus.kubernetes.node.annotation_patcher import Address


@dataclass(slots=True)
class Tracked:
    wanted: AssignedPod
    seen_at: float
    """Time of the first event about it; like all times here from the monotonic clock."""
    volume: Volume | None = None
    written: str | None = None
    """Control text in its volume."""
    said: str = ""
    """Last line that was reported."""
    rested_at: float = 0.0
    """Time at which its bell is listened to again; 0 while it is."""
    read_at: float = 0.0
    """Time of the last read of its report."""
    uuids: str = ""
    read: bool = False
    """True if its last report was written."""
    over: bool = False
    killing: bool = False
    signalled: bool = False
    """True if it was signaled to end."""
    address: Address = field(init=False)

    def __post_init__(self) -> None:
        pod = self.wanted
        self.address = Address(pod.namespace, pod.name, pod.uid)
        self.said, self.uuids, self.read, self.over = pod.said, pod.uuids, pod.read, pod.over
        self.signalled = pod.signalled

    def close(self) -> None:
        if self.volume is not None:
            self.volume.close()
            self.volume = None
