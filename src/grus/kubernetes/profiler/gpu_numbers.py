"""The numbers of a node's GPUs, as its annotations call them: `grus.dev/gpu-3`. Pure."""

from collections.abc import Mapping

from grus.kubernetes.names import GPU_TAG
from grus.kubernetes.node.tag_annotations import device_of, ours
from grus.model.identifiers import DeviceId
from grus.telemetry.samples import Subject


class Numbers:
    """Numbers of GPUs, given in the order in which GPUs are first seen, which is the driver's; none is
    reused. GPUs that the node's annotations name already keep their numbers. Virtual ones (`node-1/3`) carry
    their own.
    """

    def __init__(self, notes: Mapping[str, str]) -> None:
        self._known: dict[DeviceId, int] = {}
        for name, text in notes.items():
            if ours(name) and (device := device_of(text)):
                self._known.setdefault(DeviceId(device), int(name.removeprefix(GPU_TAG).partition("-")[0]))

    def annotation(self, subject: Subject) -> str:
        """The name of the annotation for a GPU, or for an instance of a partitioned one."""
        assert subject.device is not None
        number = self._known.get(subject.device)
        if number is None:
            own = subject.device.rpartition("/")[2]
            number = int(own) if own.isdecimal() else self._next()
            self._known[subject.device] = number
        return f"{GPU_TAG}{number}{'-' if subject.instance else ''}{subject.instance}"

    def _next(self) -> int:
        return max(self._known.values(), default=-1) + 1
