"""The engine on nodes that are objects only: what goes wrong with nodes, pods and other people's hands."""

import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from grus.engines.kubernetes.engine import KubernetesEngine
from grus.kubernetes.api_objects.job_home import Home
from grus.kubernetes.client.api import Api
from grus.kubernetes.client.errors import Missing
from grus.kubernetes.client.resource_kinds import EVENTS, NODES, PODS, SERVICES, Object
from grus.kubernetes.names import CONTROL, KILL_AT, READ, WORKER
from grus.model.identifiers import DeviceId, JobId, NodeId, WorkerId
from grus.model.interfaces import WorkerSpec, WorkerState
from grus.model.jobs import Exit, ExitCause
from grus.model.resources import GPU
from tests.contracts.engine_contract import end_of, status_of, until, until_state
from tests.kubernetes.clusters import Cluster
from tests.kubernetes.engine.conftest import clear

RUNNING: Object = {"running": {"startedAt": "2026-01-01T00:00:10Z"}}


class World:
    """An engine, a node of its own, and the hand of its kubelet."""

    def __init__(self, api: Api, namespace: str, folder: Path) -> None:
        self.api, self.namespace, self.folder = api, namespace, folder
        self.node = f"pretend-{uuid.uuid4().hex[:6]}"
        self.add_node()
        self.engine = self.make()
        self.engine.open(1)

    def make(self, **changes: Any) -> KubernetesEngine:
        settings: dict[str, Any] = {
            "where": lambda job: Home(self.namespace, job),
            "image": "grus:1",
            "logs": self.folder,
            "system": self.namespace,
            "within": self.namespace,
            "lost_after": 0.5,
        }
        return KubernetesEngine(self.api, **(settings | changes))

    def add_node(self) -> None:
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "4"}
        self.api.create(NODES, {"metadata": {"name": self.node}})
        self.set_node({"capacity": amounts, "allocatable": amounts})
        self.ready("True")

    def set_node(self, status: Object) -> None:
        self.api.patch(NODES, self.node, {"status": status}, part="status")

    def ready(self, word: str) -> None:
        self.set_node({"conditions": [{"type": "Ready", "status": word, "reason": "Pretend"}]})

    def start(self, name: str, **changes: Any) -> WorkerId:
        settings: dict[str, Any] = {
            "id": WorkerId(name),
            "job": JobId(name.partition(".")[0]),
            "attempt": 1,
            "node": NodeId(self.node),
            "argv": ("true",),
            "env": (),
            "workdir": "",
            "devices": (DeviceId(f"{self.node}/0"),),
            "share": GPU,
        }
        spec = WorkerSpec(**(settings | changes))
        self.engine.start(spec)
        return spec.id

    def running(self, name: str) -> WorkerId:
        worker = self.start(name)
        until(lambda: self.pods())
        self.kubelet(name, state=RUNNING, phase="Running")
        until_state(self.engine, worker, WorkerState.RUNNING)
        return worker

    def pods(self) -> list[Object]:
        return self.api.list(PODS, self.namespace, labels="grus.dev/job")[0]

    def pod(self, name: str) -> Object:
        return self.api.get(PODS, f"{name}-{name}", self.namespace)

    def kubelet(self, name: str, *, state: Object | None = None, **status: Any) -> None:
        """Says what becomes of the pod of the worker `name`."""
        if state is not None:
            container = {"name": "main", "ready": False, "restartCount": 0, "image": "", "imageID": ""}
            status["containerStatuses"] = [{**container, "state": state}]
        until(lambda: self.pods())
        self.api.patch(PODS, f"{name}-{name}", {"status": status}, self.namespace, part="status")

    def forgotten(self, worker: WorkerId) -> None:
        self.engine.forget(worker)
        until(lambda: not self.pods())


@pytest.fixture
def world(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[World]:
    api = Api.connect(cluster.kubeconfig, connections=16)
    made = World(api, namespace, tmp_path)
    yield made
    made.engine.close()
    clear(api, namespace)
    with suppress(Missing):
        api.delete(NODES, made.node)
    api.close()


def test_a_worker_on_a_node_that_was_removed_is_lost_and_its_pod_goes_by_force(world: World) -> None:
    worker = world.running("j1")
    world.api.delete(NODES, world.node)
    found = end_of(world.engine, worker)
    assert found.cause is ExitCause.LOST
    assert world.node in found.text
    world.forgotten(worker)
    assert world.engine.workers() == ()


def test_a_worker_on_a_node_that_stays_silent_is_lost_and_nothing_new_goes_there(world: World) -> None:
    worker = world.running("j1")
    world.ready("Unknown")
    found = end_of(world.engine, worker)
    assert found.cause is ExitCause.LOST
    assert "silent" in found.text
    (node,) = (one for one in world.engine.nodes() if one.id == world.node)
    assert node.cordoned
    world.forgotten(worker)


def test_a_pod_that_the_api_server_refuses_could_not_start_for_its_reason(world: World) -> None:
    spec = '{"spec": {"containers": [{"volumeMounts": [{"name": "nowhere", "mountPath": "/x"}]}]}}'
    found = end_of(world.engine, world.start("j1", pod=spec))
    assert found.cause is ExitCause.START
    assert "nowhere" in found.text
    world.forgotten(WorkerId("j1"))


def test_names_that_could_not_be_a_pods_could_not_start(world: World) -> None:
    found = end_of(world.engine, world.start("j1/../x", job=JobId("j1")))
    assert found.cause is ExitCause.START


def test_a_pod_of_that_name_that_is_not_ours_is_left_alone(world: World) -> None:
    container = {"name": "main", "image": "x"}
    theirs = {"metadata": {"name": "j1-j1"}, "spec": {"containers": [container]}}
    uid = world.api.create(PODS, theirs, world.namespace)["metadata"]["uid"]
    found = end_of(world.engine, world.start("j1"))
    assert found.cause is ExitCause.START
    assert "not Grus's" in found.text
    world.forgotten(WorkerId("j1"))
    assert world.pod("j1")["metadata"]["uid"] == uid


def test_a_kubelet_that_does_not_let_a_pod_in_is_no_verdict_on_the_job(world: World) -> None:
    worker = world.start("j1")
    world.kubelet("j1", phase="Failed", reason="OutOfnvidia.com/gpu", message="no GPU is left")
    assert end_of(world.engine, worker) == Exit(ExitCause.LOST, None, "OutOfnvidia.com/gpu: no GPU is left")


def test_an_image_that_cannot_be_had_ends_the_worker_with_the_kubelets_words(world: World) -> None:
    worker = world.start("j1")
    world.kubelet("j1", state={"waiting": {"reason": "InvalidImageName", "message": "no image X"}})
    until(lambda: "deletionTimestamp" in world.pod("j1")["metadata"])
    status = status_of(world.engine, worker)
    assert status is not None
    assert status.state is WorkerState.STARTING, "its GPU is not free before the kubelet has let go"
    world.api.delete(PODS, "j1-j1", world.namespace, grace=0)
    assert end_of(world.engine, worker) == Exit(ExitCause.START, None, "no image X")


def test_a_pod_that_somebody_removes_by_force_is_lost(world: World) -> None:
    worker = world.running("j1")
    world.api.patch(PODS, "j1-j1", {"metadata": {"finalizers": None}}, world.namespace)
    world.api.delete(PODS, "j1-j1", world.namespace, grace=0)
    assert end_of(world.engine, worker).cause is ExitCause.LOST


def test_an_end_that_came_before_the_stop_stays_what_it_was(world: World) -> None:
    """Although the engine has not heard of it when it is asked to stop."""
    worker = world.running("j1")
    world.api.patch(PODS, "j1-j1", {"metadata": {"annotations": {READ: "true"}}}, world.namespace)
    watcher = world.engine._now().watcher
    with watcher.lock:  # news have to wait meanwhile
        state = {"terminated": {"exitCode": 3, "startedAt": "2026-01-01T00:00:10Z"}}
        state["terminated"]["finishedAt"] = "2026-01-01T00:00:12Z"
        world.kubelet("j1", state=state, phase="Failed")
        stopping = threading.Thread(target=world.engine.stop, args=(worker, 60.0))
        stopping.start()
    stopping.join()
    found = end_of(world.engine, worker)
    assert (found.cause, found.code) == (ExitCause.CODE, 3)
    assert KILL_AT not in world.pod("j1")["metadata"]["annotations"]


def test_orders_arrive_in_their_order_and_the_last_one_stays(world: World) -> None:
    worker = world.start("j1")
    for number in range(50):
        world.engine.publish(worker, str(number))
    until(lambda: world.pods() and world.pod("j1")["metadata"]["annotations"].get(CONTROL) == "49")
    assert world.engine._now().lanes.settle(worker, 20)
    assert world.pod("j1")["metadata"]["annotations"][CONTROL] == "49"


def test_pods_of_other_schedulers_are_seen_within_a_moment(world: World) -> None:
    def usable() -> int:
        (node,) = (one for one in world.engine.nodes() if one.id == world.node)
        return sum(device.usable for device in node.devices)

    until(lambda: usable() == 4)
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "3"}}}
    pod = {"metadata": {"name": "theirs"}, "spec": {"nodeName": world.node, "containers": [container]}}
    world.api.create(PODS, pod, world.namespace)
    until(lambda: usable() == 1)
    world.api.delete(PODS, "theirs", world.namespace, grace=0)
    until(lambda: usable() == 4)


def test_a_node_with_more_gpus_in_use_than_it_has_is_told_and_disturbs_nobody(world: World) -> None:
    worker = world.running("j1")
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "6"}}}
    pod = {"metadata": {"name": "greedy"}, "spec": {"nodeName": world.node, "containers": [container]}}
    world.api.create(PODS, pod, world.namespace)

    def told() -> list[str]:
        world.engine.nodes()
        events, _ = world.api.list(EVENTS, "default", fields=f"involvedObject.name={world.node}")
        return [event["message"] for event in events]

    until(told)
    assert "has 4 GPUs, and 3 more than that are in use" in told()[0]
    assert f"pod {world.namespace}/greedy" in told()[0]
    status = status_of(world.engine, worker)
    assert status is not None
    assert status.state is WorkerState.RUNNING


def test_workers_with_peers_have_a_service_to_be_found_by(world: World) -> None:
    first = WorkerId("j1.1.main.0.1")
    for index in range(2):
        name = f"j1.1.main.{index}.1"
        world.start(name, env=(("WORLD_SIZE", "2"), ("MASTER_ADDR", "x")), first=first)
    until(lambda: len(world.pods()) == 2)
    assert world.api.get(SERVICES, "grus-j1", world.namespace)["spec"]["clusterIP"] == "None"


def test_a_removal_that_was_cut_short_is_finished_by_the_next_engine(world: World) -> None:
    worker = world.start("j1")
    world.kubelet("j1", phase="Failed", reason="OutOfcpu")
    end_of(world.engine, worker)
    world.engine.close()
    world.api.patch(PODS, "j1-j1", {"metadata": {"finalizers": None}}, world.namespace)
    world.engine = world.make()
    world.engine.open(2)
    end_of(world.engine, worker)
    world.forgotten(worker)


def test_a_finalizer_of_somebody_else_is_left_to_him(world: World) -> None:
    worker = world.start("j1")
    world.kubelet("j1", phase="Failed", reason="OutOfcpu")
    end_of(world.engine, worker)
    theirs = {"metadata": {"finalizers": [WORKER, "example.com/theirs"]}}
    world.api.patch(PODS, "j1-j1", theirs, world.namespace)
    world.engine.forget(worker)
    until(lambda: world.pod("j1")["metadata"].get("finalizers") == ["example.com/theirs"])
    assert world.engine.workers() == ()


def test_hundreds_of_workers_are_started_once_each(world: World) -> None:
    names = [f"j{number}.1.main.0.1" for number in range(200)]
    for name in names * 2:
        world.start(name, devices=(), share=0)
    until(lambda: len(world.pods()) == 200, 60)
    assert len(world.engine.workers()) == 200
    found = {pod["metadata"]["annotations"][WORKER] for pod in world.pods()}
    assert found == set(names)
