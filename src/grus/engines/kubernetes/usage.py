"""What the node agents say that workers use. Pure but for the memory of what was read last."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grus.kubernetes.kinds import Object
from grus.kubernetes.names import AGENT, USAGE
from grus.model.identifiers import WorkerId
from grus.model.ports import Usage


@dataclass(frozen=True, slots=True)
class Said:
    """One agent's word: by the uid of each pod, CPU seconds, bytes, GPU share, bytes of GPU memory."""

    at: float
    pods: Mapping[str, Any]


class Agents:
    """The node agents' pods. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[str, str] = {}
        self._said: dict[str, Said] = {}

    def pod_changed(self, what: str, pod: Object) -> None:
        metadata = pod["metadata"]
        if AGENT not in (metadata.get("labels") or {}):
            return
        text = (metadata.get("annotations") or {}).get(USAGE, "")
        with self._lock:
            if what == "DELETED":
                self._texts.pop(metadata["name"], None)
                self._said.pop(metadata["name"], None)
            elif text != self._texts.get(metadata["name"]):
                self._texts[metadata["name"]] = text
                said = read(text)
                if said is not None:
                    self._said[metadata["name"]] = said

    def usage(self, workers: Mapping[str, WorkerId]) -> tuple[Usage, ...]:
        """Of these workers, given by the uids of their pods."""
        with self._lock:
            found = [
                usage(workers[uid], said.at, figures)
                for said in self._said.values()
                for uid, figures in said.pods.items()
                if uid in workers
            ]
        return tuple(one for one in found if one is not None)


def read(text: str) -> Said | None:
    try:
        found = json.loads(text)
        return Said(float(found["at"]), dict(found["pods"]))
    except (ValueError, KeyError, TypeError):  # nothing yet, or an agent of another release
        return None


def usage(worker: WorkerId, at: float, figures: Any) -> Usage | None:
    try:
        cpu, memory, share, gpu_memory = figures
        return Usage(
            worker=worker,
            at=at,
            cpu_seconds=float(cpu),
            memory=int(memory),
            gpu_utilisation=None if share is None else float(share),
            gpu_memory=None if gpu_memory is None else int(gpu_memory),
        )
    except (ValueError, TypeError):
        return None
