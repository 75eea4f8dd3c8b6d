"""Objects that pass the schema but make no sense: every mistake is told, and nothing else is disturbed."""

import copy
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from grus.kubernetes.client.api import Missing
from grus.kubernetes.client.resource_kinds import DEFINITIONS, EVENTS, GPU_JOBS, GPU_QUEUES, PODS
from grus.kubernetes.install.custom_resources import JOBS, gpu_job
from tests.kubernetes.clusters import Cluster, shared, until
from tests.kubernetes.pool import KubernetesPool


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    """Of this file alone: its controller takes whatever is in it."""
    with shared("bad-input", "--without", "kube-scheduler") as started:
        yield started


BAD: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "mistakes": (
        {"resources": {"gpu": "2-8", "memory": "32G"}, "retries": 1000, "idle": {"for": "soon"}},
        ("2..8", "32GB", "retries", "idle.for"),
    ),
    "nothing-to-run": ({"run": None}, ("run: is needed",)),
    "no-queue": ({"queue": "nowhere"}, ("names no queue", "there are a, default")),
    "too-big": ({"resources": {"gpu": 400}}, ("and there are 4", "nearest request that fits is gpu: 4")),
    "no-such-type": ({"resources": {"gpu": "H100:1"}}, ("no GPU of type H100",)),
    "after-nobody": ({"after": ["nobody"]}, ("after[0]",)),
    "where-it-runs": (
        {"pod": {"spec": {"nodeName": "n1", "restartPolicy": "Always"}}},
        ("pod.spec.nodeName", "pod.spec.restartPolicy"),
    ),
    "rigid-replicas": ({"replicas": 2}, ("replicas", "fixed size")),
    "out-of-range": ({"resources": {"gpu": "1..2"}, "replicas": 3}, ("must lie within 1..2",)),
    "high-priority": ({"queue": "a", "priority": 90}, ("must be at most 60 in queue a",)),
}


def test_senseless_jobs_say_every_mistake_and_the_others_run(own_cluster: Cluster, tmp_path: Path) -> None:
    with KubernetesPool(own_cluster, tmp_path, 4, a={"quota": 2, "max_priority": 60}) as pool:
        jobs = [pool.an_object("GpuJob", name, {"run": "true", **spec}) for name, (spec, _) in BAD.items()]
        for job in jobs:
            job["spec"] = {key: value for key, value in job["spec"].items() if value is not None}
        pool.apply_all(jobs)
        pool.run("good", "a", 2)
        assert "good" in pool.running()
        for name, (_, words) in BAD.items():
            pool.until_said("gpujob", name, "Admitted", "False", *words)
            assert pool.job(name)["status"]["phase"] == "refused"
            assert pool.job(name)["status"].get("record") is None
        pool.apply("GpuJob", "mistakes", {"run": "true", "resources": {"gpu": 1}})
        pool.until_said("gpujob", "mistakes", "Admitted", "True")
        pool.settle()
        assert pool.running() == {"good", "mistakes"}
        pool.kubectl("wait", "--for=condition=Running", "gpujob/good", "-n", pool.namespace, "--timeout=300s")


def test_a_spec_that_changes_after_submit_is_told_and_the_job_goes_on(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    with KubernetesPool(own_cluster, tmp_path, 4) as pool:
        pool.run("job", gpu="1..4", resize="live")
        uids = {pod["metadata"]["uid"] for pod in pool.pods("job")}
        pool.apply_all([pool.a_job("job", "default", "1..4", resize="live", retries=5)])
        pool.until_said("gpujob", "job", "Applied", "False", "does not change after submit")
        pool.kubectl("scale", "gpujob", "job", "--replicas=9", "-n", pool.namespace)
        pool.until_said("gpujob", "job", "Applied", "False", "must lie within 1..4")
        assert {pod["metadata"]["uid"] for pod in pool.pods("job")} == uids
        pool.apply_all([pool.a_job("job", "default", "1..4", resize="live")])
        pool.kubectl("scale", "gpujob", "job", "--replicas=2", "-n", pool.namespace)
        pool.until_said("gpujob", "job", "Applied", "True")
        pool.settle()
        assert len(pool.pods("job")) == 2
        pool.kubectl(
            "patch", "gpujob", "job", "-n", pool.namespace, "--type=merge", "-p", '{"spec":{"paused":true}}'
        )
        pool.kubectl("wait", "--for=condition=Paused", "gpujob/job", "-n", pool.namespace, "--timeout=300s")
        pool.settle()
        assert pool.pods("job") == []


def test_queues_that_make_no_sense_and_queues_in_use(own_cluster: Cluster, tmp_path: Path) -> None:
    with KubernetesPool(own_cluster, tmp_path, 4, a={"quota": 2}) as pool:
        pool.run("job", "a", 2)
        pool.apply("GpuQueue", "a", {"quota": 2, "reserved": 3, "weight": 0})
        pool.until_said("gpuqueue", "a", "Accepted", "False", "reserved", "weight")
        pool.apply("GpuQueue", "lost", {"parent": "nowhere"})
        pool.until_said("gpuqueue", "lost", "Accepted", "False", "names no queue")
        pool.apply("GpuQueue", "below", {"parent": "a"})
        pool.until_said("gpuqueue", "below", "Accepted", "False", "1 unfinished job")
        pool.apply("GpuQueue", "greedy", {"quota": 9})
        pool.until_said("gpuqueue", "greedy", "WithinPool", "False", "the pool has 4 GPUs")
        pool.settle()
        assert pool.running() == {"job"}
        for name in ("lost", "below", "greedy"):
            pool.kubectl("delete", "gpuqueue", name, "--timeout=300s")
        pool.kubectl("delete", "gpuqueue", "a", "--wait=false")
        pool.until_said("gpuqueue", "a", "InUse", "True", f"{pool.namespace}/job")
        pool.apply_all([pool.a_job("late", "a")])
        pool.until_said("gpujob", "late", "Admitted", "False", "being deleted")
        assert pool.running() == {"job"}
        pool.delete("job")

        def gone() -> bool:
            try:
                pool.api.get(GPU_QUEUES, "a")
            except Missing:
                return True
            return False

        until(gone, "the queue goes with its last job")


def test_namespaces_that_may_not_use_a_queue_get_a_condition_and_never_gpus(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    closed = {"quota": 2, "namespaces": {"names": ["elsewhere"], "labels": {"team": "vision"}}}
    with KubernetesPool(own_cluster, tmp_path, 4, a=closed) as pool:
        pool.apply_all([pool.a_job("job", "a"), pool.a_pod("pod", queue="a")])
        pool.until_said("gpujob", "job", "Admitted", "False", f"not open to namespace {pool.namespace}")
        pool.until_said("pod", "pod", "PodScheduled", "False", "not open to namespace")
        assert (pool.pods_of_all(), pool.node_of("pod")) == (["pod"], "")
        pool.kubectl("label", "namespace", pool.namespace, "team=vision")
        pool.until_said("gpujob", "job", "Admitted", "True")
        until(lambda: pool.node_of("pod") == "n1", "the pod is placed")
        pool.kubectl("delete", "pod", "pod", "-n", pool.namespace)


def test_plain_pods_are_jobs_and_pods_of_other_schedulers_are_respected(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    """Three pods of others hold six of four GPUs: nothing more goes there until they are gone."""
    with KubernetesPool(own_cluster, tmp_path, 4, a={"quota": 2}, b={"quota": 2}) as pool:
        others = [pool.a_pod(f"other-{number}", 2, scheduler="nobody") for number in range(3)]
        for pod in others:
            pod["spec"]["nodeName"] = "n1"
        pool.apply_all(others)
        until(lambda: all(device.outside for device in pool.controller.loop.picture.nodes[0].devices), "seen")
        pool.apply_all([pool.a_pod("lost", queue="nowhere")])
        pool.apply_all([pool.a_pod(f"plain-{number}", queue="a") for number in range(4)])
        pool.until_said("pod", "lost", "PodScheduled", "False", "names no queue")
        pool.run("job", "b", 2)
        assert pool.waiting() == {"job"}
        assert not any(pool.node_of(f"plain-{number}") for number in range(4))
        pool.kubectl("delete", "pod", "-n", pool.namespace, *(pod["metadata"]["name"] for pod in others))
        until(lambda: pool.running() == {"job"}, "what others have left is seen, and given")
        pool.settle()
        placed = [number for number in range(4) if pool.node_of(f"plain-{number}")]
        assert len(placed) == 2  # two GPUs are left, whoever of them was first
        pool.run("more", "b", 2)  # beyond its quota: it takes nothing
        assert (pool.running(), pool.waiting()) == ({"job"}, {"more"})
        pool.kubectl("delete", "pod", "-n", pool.namespace, "-l", "!grus.dev/job")
        until(lambda: pool.running() == {"job", "more"}, "their GPUs are given to who waits")


def test_a_plain_pod_beyond_its_quota_makes_room_by_being_deleted(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    with KubernetesPool(own_cluster, tmp_path, 4, a={"quota": 2}, b={"quota": 2}) as pool:
        pool.apply_all([pool.a_pod(f"plain-{number}", queue="a") for number in range(4)])
        until(lambda: all(pool.node_of(f"plain-{number}") for number in range(4)), "all four are placed")
        pool.run("job", "b", 2)
        assert pool.running() == {"job"}
        until(
            lambda: len(pool.api.list(PODS, pool.namespace, labels="!grus.dev/job")[0]) == 2, "two have gone"
        )
        pool.kubectl("delete", "pod", "-n", pool.namespace, "-l", "!grus.dev/job")


def test_gpus_of_another_kind_are_gpus_too(own_cluster: Cluster, tmp_path: Path) -> None:
    class OtherPool(KubernetesPool):
        resource = "amd.com/gpu"

    with OtherPool(own_cluster, tmp_path, 4) as pool:
        pool.run("job", gpu=2)
        [pod] = pool.pods("job")
        assert pod["spec"]["containers"][0]["resources"]["limits"]["amd.com/gpu"] == "2"


def test_a_definition_of_an_older_version_is_told_of_and_jobs_run_all_the_same(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    with KubernetesPool(own_cluster, tmp_path, 4) as pool:
        now = pool.api.get(DEFINITIONS, JOBS)
    old = copy.deepcopy(now)
    fields = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    del fields["spec"]["properties"]["pod"], fields["status"]["properties"]["asked"]
    api = KubernetesPool(own_cluster, tmp_path).api
    api.replace(DEFINITIONS, old)
    try:
        with KubernetesPool(own_cluster, tmp_path, 4) as pool:
            pool.run("job", gpu=2)
            assert pool.running() == {"job"}
            told = [event["message"] for event in pool.api.list(EVENTS, "default")[0]]
            assert any(".spec.pod" in text and ".status.asked" in text for text in told)
    finally:
        newest = api.get(DEFINITIONS, JOBS)
        api.replace(DEFINITIONS, {**newest, "spec": gpu_job()["spec"]})
        api.close()


def test_an_object_whose_finalizer_was_taken_by_force_frees_its_gpus(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    with KubernetesPool(own_cluster, tmp_path, 4) as pool:
        pool.run("job", gpu=4)
        pool.kubectl("delete", "gpujob", "job", "-n", pool.namespace, "--wait=false")
        nobody = [{"op": "remove", "path": "/metadata/finalizers"}]
        with suppress(Missing):  # it may have gone in order before
            pool.api.patch(GPU_JOBS, "job", nobody, pool.namespace, how="json")
        pool.run("next", gpu=4)
        assert pool.running() == {"next"}
