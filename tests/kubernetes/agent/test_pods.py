"""What the agent reads off a pod."""

from typing import Any

import pytest

from grus.kubernetes.agent.pods import AssignedPod, wanted
from grus.kubernetes.names import CONTROL, JOB, KILL_AT, READ, RESERVATION, SAID, VOLUME

RUNNING = {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}
TERMINATED = {"state": {"terminated": {"exitCode": 0}}}


def a_pod(labels: dict[str, str] | None = None, **parts: Any) -> dict[str, Any]:
    metadata = {"uid": "12-ab", "name": "w", "namespace": "team", "labels": labels or {JOB: "j1"}}
    metadata |= parts.pop("metadata", {})
    return {"metadata": metadata, "spec": {}, "status": {}, **parts}


def read(pod: dict[str, Any]) -> AssignedPod:
    found = wanted(pod)
    assert found is not None
    return found


def test_pods_of_others_are_none_of_its_business() -> None:
    assert wanted(a_pod({"app": "web"})) is None


@pytest.mark.parametrize("uid", ["../../etc", "", "a/b", "x" * 65])
def test_a_uid_that_is_a_path_is_refused(uid: str) -> None:
    assert wanted(a_pod(metadata={"uid": uid})) is None


def test_annotations_are_read() -> None:
    notes = {CONTROL: "orders", KILL_AT: "12.5", SAID: "line", READ: "true"}
    found = read(a_pod(metadata={"annotations": notes}))
    assert (found.control, found.kill_at, found.said, found.read) == ("orders", 12.5, "line", True)


@pytest.mark.parametrize("text", ["soon", "nan", "inf", ""])
def test_a_moment_that_is_none_kills_nobody(text: str) -> None:
    assert read(a_pod(metadata={"annotations": {KILL_AT: text}})).kill_at is None


def test_who_has_no_volume_is_not_spoken_to() -> None:
    assert not read(a_pod({RESERVATION: "node1-0"})).worker
    assert not read(a_pod(spec={"volumes": [{"name": "data"}]})).worker
    assert read(a_pod(spec={"volumes": [{"name": "data"}, {"name": VOLUME}]})).worker


@pytest.mark.parametrize(
    ("status", "deleted", "ended"),
    [
        ({}, {}, False),
        (RUNNING, {}, False),
        ({"phase": "Failed"}, {}, True),
        ({"phase": "Running", "containerStatuses": [TERMINATED]}, {}, True),
        ({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {}}}]}, {}, False),
        (RUNNING, {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}, False),
        ({"phase": "Pending"}, {"deletionTimestamp": "x", "deletionGracePeriodSeconds": 0}, True),
    ],
)
def test_a_pod_has_ended_when_nothing_of_it_will_run(
    status: dict[str, Any], deleted: dict[str, Any], ended: bool
) -> None:
    assert read(a_pod(status=status, metadata=deleted)).ended is ended


@pytest.mark.parametrize(
    ("limits", "gpus"), [({"cpu": "1"}, False), ({"nvidia.com/gpu": "2"}, True), ({"amd.com/gpu": "1"}, True)]
)
def test_devices_of_plugins_are_told_from_the_kubelets_own(limits: dict[str, str], gpus: bool) -> None:
    assert read(a_pod(spec={"containers": [{"resources": {"limits": limits}}]})).gpus is gpus
