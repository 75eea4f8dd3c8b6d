"""Cluster objects of each earlier version are read as the jobs, queues and workers that they were."""

from grus.cli.kubernetes.object_converter import events_of, shown, workers_of
from grus.engines.kubernetes import worker_registry as worker_records
from grus.engines.kubernetes.pod_status import job_of, worker_of
from grus.kubernetes.api_objects.gpu_queues import accepted_queues
from grus.kubernetes.client.resource_kinds import GPU_JOBS, GPU_QUEUES, PODS, Object
from grus.model.jobs import HOLDING, Phase
from grus.operator.plain.pods_as_jobs import is_plain
from grus.store.kubernetes import job_status_codec
from tests.compatibility.kept import Kept, described, versions
from tests.kubernetes.kubelets import GPU


@versions
def test_every_object_is_read_as_the_job_that_it_was(version: Kept) -> None:
    read = {
        item["metadata"]["name"]: found
        for item in version.of_kind(GPU_JOBS)
        if (found := job_status_codec.found(item)) is not None
    }
    assert {name: described(found.job) for name, found in read.items()} == version.made["objects"]
    assert {found.job.phase for found in read.values()} == set(Phase)
    assert all(found.events for found in read.values())
    assert {found.key is not None for name, found in read.items() if name.startswith("by-http")} == {True}


@versions
def test_the_command_line_shows_every_object(version: Kept) -> None:
    for item in version.of_kind(GPU_JOBS):
        out = shown(item)
        refused = item["status"]["phase"] == "refused"
        assert out.phase == ("failed" if refused else item["status"]["phase"])
        assert (out.status == "refused") == refused
        assert bool(events_of(item)) != refused


@versions
def test_queues_and_pods_are_read(version: Kept) -> None:
    queues = accepted_queues(version.of_kind(GPU_QUEUES))
    assert [queue.name for queue in queues] == ["a", "b"]
    pods = version.of_kind(PODS)
    assert [pod["metadata"]["name"] for pod in pods if _is_live_and_plain(pod)] == ["plain"]
    holding = {one["id"] for one in version.made["objects"].values() if one["phase"] in HOLDING}
    live = [pod for pod in pods if worker_records.made_by_grus(pod) and worker_of(pod) is not None]
    assert {job_of(pod, worker) for pod in live if (worker := worker_of(pod))} == holding
    assert {worker_records.found(pod, GPU).status.attempt for pod in live} == {1}
    assert len(workers_of(pod for pod in pods if pod["metadata"]["name"].startswith("elastic"))) == 2


def _is_live_and_plain(pod: Object) -> bool:
    return is_plain(pod) and pod["status"]["phase"] == "Running"
