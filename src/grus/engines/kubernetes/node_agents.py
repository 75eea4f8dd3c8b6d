"""Node agents, as their pods show them: the workers' usage, and whether all their reports were delivered."""

import json
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from grus.kubernetes.client.resource_kinds import Object
from grus.kubernetes.names import AGENT, ANSWERED, USAGE
from grus.model.identifiers import WorkerId
from grus.model.interfaces import Usage

UNKNOWN = (None, None, None, None)


@dataclass(frozen=True, slots=True)
class AgentReport:
    """Report of one agent: by the uid of each pod, CPU seconds, bytes, GPU share, bytes of GPU memory."""

    at: float
    pods: Mapping[str, Any]
    io: Mapping[str, Any]
    """Bytes read from disks and written, received and sent, each as the agent knows it."""


class Agents:
    """The node agents' pods. A pod elsewhere that has their label is some user's. Any thread."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._changed = threading.Condition()
        self._pods: dict[str, Object] = {}
        self._texts: dict[str, str] = {}
        self._said: dict[str, AgentReport] = {}

    def pod_changed(self, what: str, pod: Object) -> None:
        metadata = pod["metadata"]
        if AGENT not in (metadata.get("labels") or {}) or metadata.get("namespace") != self._namespace:
            return
        name = metadata["name"]
        text = (metadata.get("annotations") or {}).get(USAGE, "")
        with self._changed:
            if what == "DELETED":
                for table in (self._pods, self._texts, self._said):
                    table.pop(name, None)
            else:
                self._pods[name] = pod
                said = read(text) if text != self._texts.get(name) else None
                self._texts[name] = text
                if said is not None:
                    self._said[name] = said
            self._changed.notify_all()

    def on(self, nodes: Collection[str]) -> list[Object]:
        """The pods of the agents that run on these nodes."""
        with self._changed:
            return [
                pod
                for pod in self._pods.values()
                if (pod.get("spec") or {}).get("nodeName") in nodes
                and (pod.get("status") or {}).get("phase") == "Running"
                and not pod["metadata"].get("deletionTimestamp")
            ]

    def wait_for(self, names: Collection[str], word: str, timeout: float) -> bool:
        """Wait until these agents have echoed the token (or are gone); return whether they have."""

        def answered() -> bool:
            there = (self._pods[name]["metadata"] for name in names if name in self._pods)
            return all((metadata.get("annotations") or {}).get(ANSWERED) == word for metadata in there)

        with self._changed:
            return self._changed.wait_for(answered, timeout)

    def usage(self, workers: Mapping[str, WorkerId]) -> tuple[Usage, ...]:
        """Return the usage of these workers, given by the uids of their pods."""
        with self._changed:
            found = [
                usage(workers[uid], said.at, figures, said.io.get(uid, UNKNOWN))
                for said in self._said.values()
                for uid, figures in said.pods.items()
                if uid in workers
            ]
        return tuple(one for one in found if one is not None)


def read(text: str) -> AgentReport | None:
    try:
        found = json.loads(text)
        return AgentReport(float(found["at"]), dict(found["pods"]), dict(found.get("io") or {}))
    except (ValueError, KeyError, TypeError):  # nothing yet, or an agent of another release
        return None


def usage(worker: WorkerId, at: float, figures: Any, io: Any = UNKNOWN) -> Usage | None:
    try:
        cpu, memory, share, gpu_memory = figures
        disk_read, disk_write, network_in, network_out = (None if one is None else int(one) for one in io)
        return Usage(
            worker=worker,
            at=at,
            cpu_seconds=float(cpu),
            memory=int(memory),
            gpu_utilisation=None if share is None else float(share),
            gpu_memory=None if gpu_memory is None else int(gpu_memory),
            disk_read=disk_read,
            disk_write=disk_write,
            network_in=network_in,
            network_out=network_out,
            network_at=None if network_in is None else at,
        )
    except (ValueError, TypeError):
        return None
