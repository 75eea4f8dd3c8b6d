"""The agent's rounds, on folders that stand for a node: what is brought, heard, killed and told."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from grus.kubernetes.agent import usage
from grus.kubernetes.agent.loop import LONG, QUICK, REST, Loop, NodePaths
from grus.kubernetes.agent.usage import VirtualGpus
from grus.kubernetes.agent.volume import place
from grus.kubernetes.names import (
    ANSWERED,
    ASKED,
    ATTACHED_FILE,
    BELL_FILE,
    CONTROL,
    CONTROL_FILE,
    GPU_MEMORY,
    JOB,
    KILL_AT,
    OVER,
    READ,
    REPORT_FILE,
    RESERVATION,
    SAID,
    USAGE,
    UUIDS,
    VOLUME,
)
from grus.kubernetes.node.annotation_patcher import Address
from grus.kubernetes.prepare import make_files

UID = "0f1e-2d3c"
ME = Address("grus-system", "agent", "9")
RUNNING = {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}
SPEC = {"volumes": [{"name": VOLUME, "emptyDir": {}}]}
PID = 4242


class Notes:
    """In place of a Writer: keeps what is to be written."""

    def __init__(self) -> None:
        self.said: list[tuple[Address, dict[str, str]]] = []
        self.busy = False

    def put(self, pod: Address, notes: dict[str, str]) -> None:
        self.said.append((pod, dict(notes)))

    def quiet(self) -> bool:
        return not self.busy

    def drop(self, pod: Address) -> None:
        self.said = [one for one in self.said if one[0] != pod]

    def of(self, uid: str = UID) -> dict[str, str]:
        found: dict[str, str] = {}
        for pod, notes in self.said:
            if pod.uid == uid:
                found |= notes
        return found


@dataclass
class Node:
    """A node in a folder."""

    top: Path
    notes: Notes = field(default_factory=Notes)
    loop: Loop = field(init=False)

    def __post_init__(self) -> None:
        places = NodePaths(self.top / "pods", self.top / "cgroup", self.top / "proc")
        self.loop = Loop(places, self.notes, VirtualGpus(), ME)  # type: ignore[arg-type]  # of one's own shape

    @property
    def volume(self) -> Path:
        return place(self.top / "pods", UID)

    def prepared(self) -> None:
        self.volume.mkdir(parents=True)
        make_files(self.volume)

    def process(self, memory: int = 1000) -> None:
        """The pod has one process, which is none of this machine."""
        place = f"kubepods/pod{UID}"
        for hierarchy in ("memory", "cpuacct"):
            (self.top / "cgroup" / hierarchy / place).mkdir(parents=True, exist_ok=True)
        folder = self.top / "cgroup" / "memory" / place
        (folder / "cgroup.procs").write_text(f"{PID}\n")
        (folder / "memory.stat").write_text("total_inactive_file 0\n")
        (folder / "memory.usage_in_bytes").write_text(f"{memory}\n")
        (self.top / "cgroup" / "cpuacct" / place / "cpuacct.usage").write_text("2000000000\n")
        proc = self.top / "proc" / str(PID)
        proc.mkdir(parents=True, exist_ok=True)
        (proc / "stat").write_text(f"{PID} (worker) S 1")
        (proc / "environ").write_bytes(b"NVIDIA_VISIBLE_DEVICES=GPU-1\0")

    def ended(self) -> None:
        (self.top / "cgroup" / "memory" / f"kubepods/pod{UID}" / "cgroup.procs").write_text("")

    def change(self, event: str = "MODIFIED", **parts: Any) -> None:
        notes = parts.pop("notes", {})
        metadata = {"uid": UID, "name": "w", "namespace": "team", "annotations": notes}
        metadata["labels"] = parts.pop("labels", {JOB: "j1"})
        self.loop.change(event, {"metadata": metadata, "spec": SPEC, "status": {}, **parts})

    def say(self, line: str, *, ring: bool = False) -> None:
        with open(self.volume / REPORT_FILE, "a") as file:
            file.write(f"{line}\n")
        if ring:
            handle = os.open(self.volume / BELL_FILE, os.O_WRONLY | os.O_NONBLOCK)
            os.write(handle, b"!")
            os.close(handle)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.loop.stop()
    made.loop.run()


def bell(node: Node) -> int:
    """The handle that is readable when the worker has rung."""
    tracked = node.loop._pods[UID]
    assert tracked.volume is not None
    return tracked.volume.bell


def test_a_worker_is_attached_with_its_orders_in_place_before_it_starts(node: Node) -> None:
    node.change("ADDED", notes={CONTROL: "orders"})
    assert node.loop.round() <= QUICK
    node.prepared()
    node.loop.round()
    assert (node.volume / CONTROL_FILE).read_text() == "orders"
    assert (node.volume / ATTACHED_FILE).exists()


def test_new_orders_are_brought_and_old_ones_left_alone(node: Node) -> None:
    node.prepared()
    node.change("ADDED", notes={CONTROL: "one"})
    node.loop.round()
    first = (node.volume / CONTROL_FILE).stat().st_ino
    node.change(notes={CONTROL: "one"})
    node.loop.round()
    assert (node.volume / CONTROL_FILE).stat().st_ino == first
    node.change(notes={CONTROL: "two"})
    node.loop.round()
    assert (node.volume / CONTROL_FILE).read_text() == "two"


def test_who_rings_is_told_at_once_and_who_does_not_only_later(node: Node) -> None:
    node.prepared()
    node.change("ADDED")
    node.loop.round()
    node.say("quiet")
    node.loop.round()
    assert SAID not in node.notes.of()
    node.say("loud", ring=True)
    assert node.loop.round([bell(node)]) <= REST + 1e-6  # a difference of two moments
    assert node.notes.of()[SAID] == "loud"


def test_what_was_said_while_no_agent_listened_is_told(node: Node) -> None:
    node.prepared()
    node.say("meanwhile")
    node.change("ADDED", notes={SAID: "before"}, status=RUNNING)
    node.loop.round()
    assert node.notes.of()[SAID] == "meanwhile"


def test_what_is_on_the_pod_already_is_not_said_again(node: Node) -> None:
    node.prepared()
    node.say("known")
    node.change("ADDED", notes={SAID: "known"}, status=RUNNING)
    node.loop.round()
    assert node.notes.said == []


def test_the_last_word_comes_when_the_last_process_is_gone(node: Node) -> None:
    node.prepared()
    node.process()
    node.change("ADDED", status=RUNNING)
    node.loop.round()
    node.say("last")
    node.change(status={"phase": "Failed"})
    node.loop.round()
    assert READ not in node.notes.of()
    node.ended()
    node.loop.round()
    assert node.notes.of() == {SAID: "last", READ: "true"}


def test_a_worker_that_never_had_a_volume_has_its_end_told(node: Node) -> None:
    node.change("ADDED", status={"phase": "Failed"})
    node.loop.round()
    assert node.notes.of() == {READ: "true"}


def test_what_was_told_of_an_end_is_not_told_again(node: Node) -> None:
    node.change("ADDED", status={"phase": "Failed"}, notes={READ: "true"})
    assert node.loop.round() > QUICK
    assert node.notes.said == []


def test_a_pod_that_is_gone_is_let_go_with_all_its_handles(node: Node) -> None:
    before = len(os.listdir("/proc/self/fd"))
    node.prepared()
    node.change("ADDED")
    node.loop.round()
    assert len(os.listdir("/proc/self/fd")) == before + 3
    node.change("DELETED")
    node.loop.round()
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_next_look_comes_when_the_kill_is_due(node: Node) -> None:
    node.prepared()
    node.change("ADDED", status=RUNNING, notes={KILL_AT: str(time.time() + 2)})
    assert node.loop.round() < 2
    node.change(status=RUNNING, notes={KILL_AT: str(time.time() - 2)})
    assert node.loop.round() <= QUICK


def test_gpus_are_named_of_workers_and_of_reservations(node: Node) -> None:
    node.process()
    asks = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    node.change("ADDED", status=RUNNING, spec=asks, labels={RESERVATION: "x"})
    node.loop.round()
    assert node.notes.of()[UUIDS] == "GPU-1"
    assert READ not in node.notes.of()


def test_use_is_told_on_the_agents_own_pod(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "SOON", 0.0)
    node.prepared()
    node.process(memory=5000)
    node.change("ADDED", status=RUNNING)
    node.loop.round()
    found = json.loads(node.notes.of(ME.uid)[USAGE])
    assert found["pods"] == {UID: [2.0, 5000, None, 5000]}


@pytest.mark.parametrize(("host", "count"), [(False, [10, 20]), (True, [None, None])])
def test_network_bytes_are_those_of_a_pods_own_network(
    node: Node, monkeypatch: pytest.MonkeyPatch, host: bool, count: list[int | None]
) -> None:
    monkeypatch.setattr(usage, "SOON", 0.0)
    monkeypatch.setattr(usage, "interfaces", lambda path: (10, 20))
    node.prepared()
    node.process(memory=5000)
    node.change("ADDED", status=RUNNING, spec={"hostNetwork": host})
    node.loop.round()
    assert json.loads(node.notes.of(ME.uid)[USAGE])["io"] == {UID: [None, None, *count]}


def test_who_uses_more_than_its_slice_is_told_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SOON", "WATCH", "EVERY"):
        monkeypatch.setattr(usage, name, 0.0)
    node.prepared()
    node.process(memory=3 << 20)
    node.change("ADDED", status=RUNNING, notes={GPU_MEMORY: str(4 << 20)})
    node.loop.round()
    assert OVER not in node.notes.of()
    node.process(memory=5 << 20)
    node.loop.round()
    node.loop.round()
    told = [notes[OVER] for _, notes in node.notes.said if OVER in notes]
    assert told == ["used 5 MiB, more than its slice of GPU memory of 4 MiB"]


def test_pods_that_are_done_with_cost_nothing(node: Node) -> None:
    node.change("ADDED", status={"phase": "Failed"})
    node.loop.round()
    tracked = node.loop._pods[UID]
    assert node.loop._pause(tracked, time.monotonic()) == LONG


def test_who_asks_is_answered_once_all_that_was_said_is_on_its_way(node: Node) -> None:
    node.prepared()
    node.change("ADDED", status=RUNNING)
    node.loop.round()
    node.say("without a bell")
    node.notes.busy = True
    me = {"namespace": ME.namespace, "name": ME.name, "uid": ME.uid, "annotations": {ASKED: "2-a"}}
    node.loop.change("MODIFIED", {"metadata": me})
    assert node.loop.round() == QUICK
    assert node.notes.of()[SAID] == "without a bell"
    assert ANSWERED not in node.notes.of(ME.uid)
    node.notes.busy = False
    node.loop.round()
    assert node.notes.of(ME.uid)[ANSWERED] == "2-a"
    before = len(node.notes.said)
    node.loop.round()
    assert len(node.notes.said) == before
