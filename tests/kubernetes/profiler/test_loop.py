"""Rounds of the profiler on made-up figures: what goes onto the node and its pods, and how often."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grus.kubernetes.names import DEVICES, GPU_TAG, TAG
from grus.kubernetes.node.annotation_patcher import Address, Notes
from grus.kubernetes.node.cgroups import CgroupUsage, Groups
from grus.kubernetes.node.tag_annotations import read, written
from grus.kubernetes.profiler.cgroup_usage import Hosts
from grus.kubernetes.profiler.loop import Loop
from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.identifiers import NodeId

NODE = NodeId("node-1")
BEGIN = 1_000_000.0


class Used(Groups):
    """Control groups whose CPU time grows as told."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        self.cpu: dict[str, float] = {}

    def use(self, uid: str) -> CgroupUsage | None:
        return CgroupUsage(self.cpu[uid], 1 << 30) if uid in self.cpu else None


def a_pod(name: str, *, phase: str = "Running", notes: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "annotations": {DEVICES: f"{NODE}/3", **(notes or {})},
        },
        "spec": {"containers": [{}]},
        "status": {"phase": phase},
    }


class Node:
    """A node with one pod that works in a rhythm, and what was written on both."""

    def __init__(self, notes: Mapping[str, str] | None = None) -> None:
        self.groups = Used()
        self.patches: list[tuple[str, Notes]] = []
        self.notes: dict[str, dict[str, str]] = {NODE: dict(notes or {})}
        self.loop = Loop(NODE, None, Hosts(self.groups, NODE, pretend=True), self.put, notes or {})
        self.now = BEGIN

    def put(self, whom: Address, notes: Notes) -> None:
        self.patches.append((whom.name, notes))
        there = self.notes.setdefault(whom.name, {})
        for name, text in notes.items():
            if text is None:
                there.pop(name, None)
            else:
                there[name] = text

    def work(self, uid: str, seconds: int, period: int) -> None:
        """Busy but for the last fifth of each period."""
        for _ in range(seconds):
            self.now += 1
            busy = self.now % period < 0.8 * period
            self.groups.cpu[uid] = self.groups.cpu.get(uid, 0.0) + (0.95 if busy else 0.05)
            self.loop.round(self.now)

    def tag(self, whom: str, name: str = TAG) -> Tag | None:
        text = self.notes.get(whom, {}).get(name)
        return None if text is None else read(text)


def test_a_rhythm_is_on_the_pod_and_on_its_gpu_and_goes_with_the_pod() -> None:
    node = Node()
    node.loop.change("ADDED", a_pod("a"))
    node.work("uid-a", 240, 20)
    for tag in (node.tag("a"), node.tag(NODE, f"{GPU_TAG}3")):
        assert tag is not None
        assert tag.kind is WorkloadKind.TRAINING
        assert tag.period is not None
        assert abs(tag.period - 20) < 1
    node.loop.change("MODIFIED", a_pod("a", phase="Succeeded"))
    node.loop.round(node.now + 1)
    assert node.tag("a") is None
    assert node.notes[NODE] == {}


def test_what_does_not_change_is_written_again_only_to_be_renewed() -> None:
    node = Node()
    node.loop.change("ADDED", a_pod("a"))
    node.work("uid-a", 300, 20)
    node.patches.clear()
    node.work("uid-a", 240, 20)
    assert len(node.patches) <= 2  # a renewal of the pod's, and of the node's


def test_a_profiler_that_was_away_clears_what_is_no_longer_true() -> None:
    old = written(Tag(kind=WorkloadKind.TRAINING, at=BEGIN - 900, expires=BEGIN - 300), "GPU-gone")
    node = Node({f"{GPU_TAG}0": old, "grus.dev/other": "left alone", "example.com/x": "theirs"})
    node.loop.change("ADDED", a_pod("done", phase="Succeeded", notes={TAG: old}))
    node.loop.round(BEGIN)
    assert ("done", {TAG: None}) in node.patches
    assert node.notes[NODE] == {"grus.dev/other": "left alone", "example.com/x": "theirs"}
