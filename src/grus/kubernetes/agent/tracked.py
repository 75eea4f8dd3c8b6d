"""One pod of this node, as the agent has it before it: the object's word, its volume, and what was done."""

from dataclasses import dataclass, field

from grus.kubernetes.agent.pods import Wanted
from grus.kubernetes.agent.volume import Volume
from grus.kubernetes.writing import Address


@dataclass(slots=True)
class Tracked:
    wanted: Wanted
    seen_at: float
    """When it was first heard of; like all times here by the clock that never jumps."""
    volume: Volume | None = None
    written: str | None = None
    """The control text that lies in its volume."""
    said: str = ""
    """The line that was last told."""
    rested_at: float = 0.0
    """When its bell is listened to again; 0 while it is."""
    read_at: float = 0.0
    """When its report was last read."""
    uuids: str = ""
    read: bool = False
    """Whether its last word was told."""
    over: bool = False
    killing: bool = False
    signalled: bool = False
    """Whether it was told to end."""
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
