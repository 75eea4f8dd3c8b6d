"""The pods that workers and reservations become."""

import json
from typing import Any

import pytest

from grus.engines.kubernetes import pod_manifest, reservations
from grus.engines.kubernetes.nodes import Rules
from grus.engines.kubernetes.pod_manifest import CannotStart, Recipe, Slice
from grus.kubernetes.api_objects.job_home import Home
from grus.kubernetes.client.resource_kinds import Object
from grus.kubernetes.names import CODE_FOLDER, CONTROL, DEVICES, GPU_MEMORY, JOB, RESERVATION, UUIDS, WORKER
from grus.model.identifiers import DeviceId, JobId, NodeId, WorkerId
from grus.model.interfaces import WorkerSpec
from grus.model.resources import GPU

HOME = Home("team", "bert", "uid-1")
RECIPE = Recipe("grus:1", 7)
ID = WorkerId("j0123456789.2.main.0.1")


def a_worker(**changes: Any) -> WorkerSpec:
    settings: dict[str, Any] = {
        "id": ID,
        "job": JobId("j0123456789"),
        "attempt": 2,
        "node": NodeId("n1"),
        "argv": ("python", "train.py"),
        "env": (("RANK", "1"), ("LOCAL_RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "127.0.0.1")),
        "workdir": "",
        "devices": (DeviceId("n1/0"), DeviceId("n1/1")),
        "share": GPU,
    }
    return WorkerSpec(**(settings | changes))


def made(worker: WorkerSpec | None = None, recipe: Recipe = RECIPE, **more: Any) -> Object:
    return pod_manifest.pod(worker or a_worker(), HOME, recipe, **more)


def main_of(pod: Object) -> Object:
    found: Object = pod["spec"]["containers"][0]
    return found


def variables(pod: Object) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in main_of(pod)["env"]}


def test_a_pod_is_where_and_what_was_decided_and_belongs_to_its_job() -> None:
    pod = made()
    assert pod["metadata"]["name"] == "bert-56789-2-main-0-1"
    assert pod["metadata"]["labels"][JOB] == "j0123456789"
    assert pod["metadata"]["annotations"][WORKER] == ID
    assert pod["metadata"]["annotations"][DEVICES] == "n1/0,n1/1"
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "uid-1"
    assert pod["metadata"]["finalizers"] == [WORKER]
    spec = pod["spec"]
    assert (spec["nodeName"], spec["schedulerName"], spec["restartPolicy"]) == ("n1", "grus", "Never")
    assert main_of(pod)["command"] == ["python", "train.py"]
    assert main_of(pod)["resources"]["limits"] == {"nvidia.com/gpu": "2"}


def test_the_same_worker_gives_the_same_pod_and_others_other_names() -> None:
    assert made() == made()
    workers = [
        "j0123456789.2.main.0.1",
        "j0123456789.2.main.0.2",
        "j0123456789.2.main.1.1",
        "j0123456789.3.main.0.1",
        "j0123456780.2.main.0.1",
    ]
    names = {pod_manifest.pod_name(HOME, WorkerId(worker)) for worker in workers}
    assert len(names) == len(workers)


@pytest.mark.parametrize("name", ["x" * 200, "with.dots", "a" * 62 + "-b", "UPPER"])
def test_whatever_a_job_is_called_its_pods_have_names_that_hosts_can_have(name: str) -> None:
    found = pod_manifest.pod_name(Home("team", name), ID)
    assert len(found) <= 63
    assert found == found.lower()
    assert "." not in found
    assert found[0].isalnum()
    assert found[-1].isalnum()
    assert found != pod_manifest.pod_name(Home("team", name + "2"), ID)


def test_a_pod_may_do_no_more_than_it_must() -> None:
    pod = made()
    assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*pod["spec"]["initContainers"], main_of(pod)):
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert "runAsNonRoot" not in pod["spec"]["securityContext"]
    nobody = made(user=pod_manifest.NOBODY)["spec"]["securityContext"]
    assert (nobody["runAsNonRoot"], nobody["runAsUser"]) == (True, 65532)
    assert "runAsUser" not in made(user=pod_manifest.NON_ROOT)["spec"]["securityContext"]
    assert {key for volume in pod["spec"]["volumes"] for key in volume} == {"name", "emptyDir"}


def test_what_a_shell_reads_is_left_alone_by_the_kubelet() -> None:
    pod = made(a_worker(argv=("sh", "-c", "kill $$; echo $(date) $HOME"), env=(("A", "$(B)"),)))
    assert main_of(pod)["command"][2] == "kill $$$$; echo $$(date) $$HOME"
    assert variables(pod)["A"] == "$$(B)"


def test_a_pod_is_a_machine_of_its_own() -> None:
    found = variables(made(a_worker(first=WorkerId("j0123456789.2.main.1.1"))))
    assert found["LOCAL_RANK"] == "0"
    assert found["GRUS_HOST"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert found["MASTER_ADDR"] == "bert-56789-2-main-1-1.grus-j0123456789"
    assert found["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert variables(made(a_worker(first=ID)))["MASTER_ADDR"] == "bert-56789-2-main-0-1"


def test_a_service_is_for_those_who_have_peers() -> None:
    alone = a_worker(env=(("WORLD_SIZE", "1"),), first=ID)
    assert not pod_manifest.wants_service(alone)
    assert pod_manifest.wants_service(a_worker(first=ID))
    service = pod_manifest.service(a_worker(), HOME)
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {JOB: "j0123456789"}
    assert service["metadata"]["name"] == made()["spec"]["subdomain"]


def test_who_has_no_gpu_sees_none_even_if_the_image_asks_for_all() -> None:
    pod = made(a_worker(devices=(), share=0))
    assert variables(pod)["CUDA_VISIBLE_DEVICES"] == ""
    assert variables(pod)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert main_of(pod)["resources"]["limits"] == {}


def test_a_slice_gets_the_uuid_of_its_gpu_and_a_cap_and_asks_the_kubelet_for_nothing() -> None:
    worker = a_worker(devices=(DeviceId("n1/0"),), share=GPU // 4)
    pod = made(worker, slice_=Slice("GPU-1", 4 << 30, 16 << 30))
    assert variables(pod)["NVIDIA_VISIBLE_DEVICES"] == variables(pod)["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    assert variables(pod)["GRUS_GPU_MEMORY_FRACTION"] == "0.250000"
    assert pod["metadata"]["annotations"][GPU_MEMORY] == str(4 << 30)
    assert "nvidia.com/gpu" not in main_of(pod)["resources"]["limits"]


def test_host_memory_and_cpu_are_asked_for() -> None:
    found = main_of(made(a_worker(memory=1 << 30, cpu=1500)))["resources"]
    assert found["limits"]["memory"] == found["requests"]["memory"] == str(1 << 30)
    assert found["requests"]["cpu"] == "1500m"
    assert "cpu" not in found["limits"]


def test_a_bundle_is_unpacked_before_the_worker_starts_in_it() -> None:
    name = f"bundle:{'0' * 32}-2"
    pod = made(a_worker(workdir=name))
    first = pod["spec"]["initContainers"][0]
    assert {"name": "GRUS_BUNDLE", "value": name} in first["env"]
    assert main_of(pod)["workingDir"] == CODE_FOLDER
    with pytest.raises(CannotStart, match="bundle"):
        made(a_worker(workdir="bundle:nonsense"))


def test_a_worker_without_a_command_cannot_start() -> None:
    with pytest.raises(CannotStart, match="no command"):
        made(a_worker(argv=()))


def test_jobs_and_clusters_may_add_to_a_pod_but_not_to_what_grus_decides() -> None:
    container = {
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, {"name": "MORE", "value": "1"}],
        "resources": {"limits": {"nvidia.com/gpu": "8", "rdma/hca": "1"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    said = {
        "metadata": {"labels": {"team": "x", JOB: "other"}, "annotations": {DEVICES: "n2/0"}},
        "spec": {
            "nodeName": "n2",
            "nodeSelector": {"a": "b"},
            "affinity": {"nodeAffinity": {}},
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            "containers": [container],
        },
    }
    recipe = Recipe("grus:1", 7, template={"spec": {"priorityClassName": "gpu"}})
    pod = made(a_worker(pod=json.dumps(said)), recipe)
    assert pod["spec"]["priorityClassName"] == "gpu"
    assert pod["metadata"]["labels"] == {"team": "x", JOB: "j0123456789", "grus.dev/role": "main"}
    assert pod["metadata"]["annotations"][DEVICES] == "n1/0,n1/1"
    assert pod["spec"]["nodeName"] == "n1"
    assert not {"nodeSelector", "affinity"} & set(pod["spec"])
    assert variables(pod)["MORE"] == "1"
    assert "NVIDIA_VISIBLE_DEVICES" not in variables(pod)
    assert main_of(pod)["resources"]["limits"] == {"nvidia.com/gpu": "2", "rdma/hca": "1"}
    assert {"name": "data", "mountPath": "/data"} in main_of(pod)["volumeMounts"]


def test_orders_that_are_there_at_the_start_go_with_the_pod() -> None:
    assert made(control="{}")["metadata"]["annotations"][CONTROL] == "{}"


@pytest.mark.parametrize(("grace", "seconds"), [(0.0, 1), (0.4, 1), (1.0, 1), (1.2, 2), (30.0, 30)])
def test_a_grace_is_whole_seconds_and_never_none(grace: float, seconds: int) -> None:
    assert pod_manifest.seconds(grace) == seconds


def test_a_reservation_holds_one_gpu_of_its_node_and_says_which() -> None:
    recipe = Recipe("grus:1", 7, Rules("amd.com/gpu"), {"spec": {"initContainers": [{"name": "x"}]}})
    pod = reservations.reservation(DeviceId("n1/3"), "grus-system", recipe)
    assert pod["metadata"]["name"] == "grus-gpu-n1-3"
    assert RESERVATION in pod["metadata"]["labels"]
    assert reservations.device_of(pod) == "n1/3"
    assert pod["spec"]["nodeName"] == "n1"
    assert main_of(pod)["resources"]["limits"] == {"amd.com/gpu": "1"}
    assert "initContainers" not in pod["spec"]
    assert reservations.uuid_of(pod) == ""
    pod["metadata"]["annotations"][UUIDS] = "GPU-1"
    assert reservations.uuid_of(pod) == "GPU-1"
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert reservations.uuid_of(pod) == ""


def test_reservations_of_different_places_have_different_names_that_hosts_can_have() -> None:
    places = ["n1/3", "n1/13", "n1.a/3", "n1-a/3", "x" * 80 + "/1", "x" * 80 + "/2"]
    names = [reservations.name(DeviceId(place)) for place in places]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 63 and "." not in name for name in names)


def test_a_secret_is_named_and_never_part_of_the_pod() -> None:
    worker = a_worker(secrets=(("HF_TOKEN", "hf-token"), ("WANDB_API_KEY", "wandb")))
    found = variables(made(worker))
    assert found["HF_TOKEN"] == {"secretKeyRef": {"name": "grus-secret-hf-token", "key": "value"}}
    assert found["WANDB_API_KEY"] == {"secretKeyRef": {"name": "grus-secret-wandb", "key": "value"}}


def test_no_other_secret_of_the_namespace_can_be_named() -> None:
    found = variables(made(a_worker(secrets=(("A", "default-token-x2x4z"),))))
    assert found["A"]["secretKeyRef"]["name"].startswith("grus-secret-")


def test_a_secret_does_not_choose_gpus() -> None:
    worker = a_worker(secrets=(("NVIDIA_VISIBLE_DEVICES", "all-gpus"), ("CUDA_VISIBLE_DEVICES", "all-gpus")))
    found = variables(made(worker))
    assert "NVIDIA_VISIBLE_DEVICES" not in found
    assert found["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_a_job_that_is_recorded_with_a_forbidden_field_does_not_start() -> None:
    worker = a_worker(pod=json.dumps({"spec": {"hostPID": True}}))
    with pytest.raises(CannotStart, match=r"pod\.spec\.hostPID may only be false"):
        pod_manifest.require_allowed(worker, ())
    pod_manifest.require_allowed(worker, ["spec.hostPID"])


@pytest.mark.parametrize("workdir", ["", f"bundle:{'0' * 32}-2"])
def test_a_pod_meets_restricted_pod_security(workdir: str) -> None:
    """Rules of the level `restricted`, which namespaces of jobs over HTTP enforce since Kubernetes 1.23."""
    secret = (("TOKEN", "wandb"),)
    spec = made(a_worker(workdir=workdir, secrets=secret), user=pod_manifest.NOBODY)["spec"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    whole = spec["securityContext"]
    assert (whole["runAsNonRoot"], whole["runAsUser"] > 0) == (True, True)
    assert whole["seccompProfile"]["type"] == "RuntimeDefault"
    allowed = {"configMap", "downwardAPI", "emptyDir", "persistentVolumeClaim", "projected", "secret"}
    assert all(set(volume) - {"name"} <= allowed for volume in spec["volumes"])
    for container in (*spec["initContainers"], *spec["containers"]):
        own = container["securityContext"]
        assert own["allowPrivilegeEscalation"] is False
        assert own["capabilities"]["drop"] == ["ALL"]
        assert not own.get("privileged")
        assert not any("hostPort" in port for port in container.get("ports", ()))


def test_a_container_before_the_worker_sees_no_gpu() -> None:
    """Also with an image whose own environment asks for all of them."""
    wanted = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
    fetch = {"name": "fetch", "image": "nvidia/cuda", "env": [wanted]}
    pod = made(a_worker(pod=json.dumps({"spec": {"initContainers": [fetch]}})))
    assert [one["name"] for one in pod["spec"]["initContainers"]] == ["prepare", "fetch"]
    for one in pod["spec"]["initContainers"]:
        assert [variable for variable in one["env"] if variable["name"] == wanted["name"]] == [
            {**wanted, "value": "void"}
        ]
