"""A controller takes over the cluster objects of each earlier version, on a real cluster."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grus.kubernetes.client.resource_kinds import (
    CONFIG_MAPS,
    GPU_JOBS,
    GPU_QUEUES,
    LEASES,
    PODS,
    SERVICES,
    Object,
    ResourceKind,
)
from grus.model.identifiers import JobId
from grus.model.jobs import TERMINAL, Phase
from grus.operator.options import SYSTEM
from tests.compatibility.kept import Kept, described, versions
from tests.compatibility.make_objects import GPUS, NAMESPACE
from tests.kubernetes.clusters import Cluster, shared, until
from tests.kubernetes.pool import KubernetesPool, pods_can_be_made

KINDS = (GPU_QUEUES, LEASES, GPU_JOBS, CONFIG_MAPS, SERVICES, PODS)
"""In the order in which they are made: owners first."""


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    with shared("compatibility", "--without", "kube-scheduler") as started:
        yield started


class OldPool(KubernetesPool):
    """A cluster that holds the objects of an earlier version when the controller starts."""

    def __init__(self, cluster: Cluster, folder: Path, version: Kept) -> None:
        super().__init__(cluster, folder, GPUS)
        self.namespace = NAMESPACE
        self._version = version

    def given(self) -> None:
        """They get uids of their own here; those who own others are named by these."""
        until(lambda: pods_can_be_made(self.api, SYSTEM), "so has the namespace of Grus")
        uids: dict[str, str] = {}
        for kind in KINDS:
            for item in self._version.of_kind(kind):
                self._put(kind, item, uids)

    def _put(self, kind: ResourceKind, item: Object, uids: dict[str, str]) -> None:
        metadata = dict(item["metadata"])
        before = metadata.pop("uid")
        owners = [{**one, "uid": uids[one["uid"]]} for one in metadata.get("ownerReferences", ())]
        made = self.api.create(kind, {**item, "metadata": {**metadata, "ownerReferences": owners}})
        uids[before] = made["metadata"]["uid"]
        if "status" in item and kind is not SERVICES:
            self.api.replace(kind, {**made, "status": item["status"]}, part="status")
        if "deletionTimestamp" in metadata:
            self.api.delete(kind, metadata["name"], metadata["namespace"])

    def __exit__(self, *how: Any) -> None:
        """Jobs are in two namespaces here."""
        try:
            self.kubectl("delete", "gpujobs,pods", "--all", "--all-namespaces", "--timeout=300s")
        finally:
            super().__exit__(*how)


@versions
def test_a_controller_takes_the_objects_over_and_resumes_a_paused_job(
    version: Kept, own_cluster: Cluster, tmp_path: Path
) -> None:
    told = version.made["objects"]
    with OldPool(own_cluster, tmp_path, version) as pool:
        pool.settle()
        jobs = {job.id: job for job in pool.controller.jobs_store.jobs()}
        assert set(jobs) == {JobId(one["id"]) for one in told.values()}
        fixed = {*TERMINAL, Phase.RUNNING}
        for name, one in told.items():
            if one["phase"] in fixed:  # a running one keeps its workers
                assert described(jobs[one["id"]]) == one, name
        assert pool.running() >= {"starting", "runs", "elastic", "session", "slice"}
        assert pool.paused() == {"paused", "pausing"}
        wish = '{"spec":{"paused":false}}'
        pool.kubectl("patch", "gpujob", "paused", "-n", NAMESPACE, "--type=merge", "-p", wish)
        until(lambda: "paused" in pool.running(), "it runs again")
        assert pool.record("paused")["attempt"] == 2
        pool.finish("paused")
