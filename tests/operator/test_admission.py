"""GpuJobs that are not let in, and what administrators allow."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from grus.controlplane.admission.submission import Submission
from grus.controlplane.jobs.lifecycle import JobChange
from grus.model.identifiers import QueueName
from grus.operator.admission import Admission, Refusal, Surroundings
from grus.operator.foreign_jobs import horovod
from grus.operator.namespaces import Openness
from grus.operator.pod_fields import PodFields
from tests.controlplane.plane import Plane
from tests.operator.foreign_jobs.samples import horovod_sample
from tests.operator.objects import a_gpu_job
from tests.trust.pod_attacks import POD_ATTACKS, WHOLE

CLAIM = POD_ATTACKS["another's claim"]


@pytest.fixture
def plane() -> Iterator[Plane]:
    made = Plane(pool="1x4")
    yield made
    made.close()


def admit(
    plane: Plane, *, namespace: str = "team", notes: str = "", settings: tuple[str, ...] = (), **spec: Any
) -> JobChange:
    found = a_gpu_job(image="train:1", **spec)
    found["metadata"]["namespace"] = namespace
    labels = {"grus.dev/managed": "true"} if namespace.startswith("grus-") else {}
    metadata = {"labels": labels, "annotations": {"grus.dev/allowed-pod-fields": notes}}
    fields = PodFields(settings, lambda _: {"metadata": metadata})
    options = replace(plane.settings, containers=True, allowed_pod_fields=settings)
    around = Surroundings(
        lambda: {QueueName("default"): Openness()}, lambda _: {}, lambda _: {}, fields.of, system="own"
    )
    return Admission(Submission(plane.store, plane.loop.picture, options), around).judge(found, plane.now)


@pytest.mark.parametrize("namespace", ["kube-system", "openshift-etcd", "own"])
def test_a_system_namespace_has_no_jobs(plane: Plane, namespace: str) -> None:
    with pytest.raises(Refusal, match="is a system namespace"):
        admit(plane, namespace=namespace)


def test_a_field_that_is_not_allowed_is_a_mistake_with_its_path(plane: Plane) -> None:
    with pytest.raises(Refusal, match=r"pod\.spec\.volumes\[0\]\.hostPath: is not allowed"):
        admit(plane, pod=WHOLE)


@pytest.mark.parametrize(
    "leave",
    [
        {"notes": "spec.volumes.persistentVolumeClaim"},
        {"settings": ("spec.volumes.persistentVolumeClaim",)},
        {"settings": ("default:spec.volumes.persistentVolumeClaim",)},
    ],
)
def test_an_administrator_allows_it_by_setting_or_annotation(plane: Plane, leave: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match="persistentVolumeClaim"):
        admit(plane, pod=CLAIM)
    assert admit(plane, pod=CLAIM, **leave).job.spec.pod


def test_leave_for_another_queue_is_none(plane: Plane) -> None:
    with pytest.raises(Refusal, match="persistentVolumeClaim"):
        admit(plane, pod=CLAIM, settings=("vision:spec.volumes.persistentVolumeClaim",))


def test_the_pods_of_a_converted_horovod_job_need_no_leave_and_no_other_does(plane: Plane) -> None:
    spec = horovod.convert(horovod_sample(minReplicas=1, maxReplicas=2), prepared=True)["spec"]
    spec.pop("replicas", None)
    del spec["retries"]
    made = {key: value for key, value in spec.items() if key not in ("image", "run")}
    assert admit(plane, run=None, resources=None, **made).job.spec.pod == horovod.SSH_POD
    worse = {**made, "roles": {**made["roles"]}}
    worse["roles"]["worker"] = {**made["roles"]["worker"], "pod": WHOLE}
    with pytest.raises(Refusal, match="hostPath"):
        admit(plane, run=None, resources=None, **worse)
    with pytest.raises(Refusal, match="runAsUser"):
        admit(plane, namespace="grus-vision-ann", run=None, resources=None, **made)


def test_a_variable_that_is_probably_a_secret_is_warned_of(plane: Plane) -> None:
    event = admit(plane, env={"HF_TOKEN": "hf_x", "SEED": "1"}).event
    assert event is not None
    assert "can read HF_TOKEN in env: use secrets" in event.text
    assert "hf_x" not in event.text
