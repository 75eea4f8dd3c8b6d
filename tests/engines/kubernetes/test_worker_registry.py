"""Which pods of workers that are forgotten stay for people to read their logs."""

from typing import Any

import pytest

from grus.engines.kubernetes.worker_registry import may_stay

OWNED = {"ownerReferences": [{"kind": "GpuJob", "name": "resnet", "uid": "u"}]}


@pytest.mark.parametrize(
    ("metadata", "phase", "stays"),
    [
        (OWNED, "Succeeded", True),
        (OWNED, "Failed", True),
        (OWNED, "Running", False),
        (OWNED | {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "Failed", False),
        (OWNED | {"annotations": {"grus.dev/kill-at": "1"}}, "Succeeded", False),
        ({}, "Succeeded", False),
    ],
    ids=["finished", "failed", "runs", "was deleted", "was stopped", "nobody would ever remove it"],
)
def test_a_pod_stays_if_it_ended_by_itself_and_goes_with_its_owner(
    metadata: dict[str, Any], phase: str, stays: bool
) -> None:
    assert may_stay({"metadata": metadata, "status": {"phase": phase}}) is stays
