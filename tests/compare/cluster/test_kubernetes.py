"""The driver of Kubernetes, against a real one with real nodes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grus.compare.backends import pod_manifest
from grus.compare.backends.kubernetes import Kubernetes
from grus.compare.environments import (
    Driver,
    DriverFailed,
    EndingKind,
    Environment,
    EnvironmentKind,
    Order,
    PreflightStatus,
)
from grus.compare.records import read as read_record
from grus.compare.workload import Workload
from grus.kubernetes.client.api import Api
from grus.kubernetes.client.resource_kinds import CONFIG_MAPS, PODS
from tests.compare.end_to_end import a_job, check_whole, compare, sides
from tests.contracts.driver_contract import DriverContract, a_bundle, a_workload, run
from tests.kubernetes.clusters import Cluster, until
from tests.kubernetes.conftest import nodes, nodes_client, nodes_namespace  # noqa: F401 - fixtures
from tests.kubernetes.objects import host_folders
from tools.kubernetes.node import IMAGE


def of_this_machine() -> dict[str, Any]:
    """What a job says of its pods here: the image holds no system, so the machine's own is mounted."""
    folders = list(enumerate(host_folders()))
    mounts = [
        {"name": f"host-{number}", "mountPath": str(folder), "readOnly": True} for number, folder in folders
    ]
    volumes = [{"name": f"host-{number}", "hostPath": {"path": str(folder)}} for number, folder in folders]
    container = {
        "imagePullPolicy": "Never",
        "env": [{"name": "PATH", "value": "/usr/bin:/bin"}],
        "volumeMounts": mounts,
    }
    return {"spec": {"containers": [container], "volumes": volumes}}


FIELDS: dict[str, object] = {"image": IMAGE, "pod": of_this_machine()}


class Place:
    """A fresh namespace of the cluster, and what is in it."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.api = Api.connect(cluster.kubeconfig)

    def driver(self, **more: Any) -> Kubernetes:
        target = f"{self.context}/{self.namespace}"
        environment = Environment(EnvironmentKind.KUBERNETES, target, "kubernetes")
        return Kubernetes(environment, kubeconfig=self.cluster.kubeconfig, **more)

    @property
    def context(self) -> str:
        return self.cluster.kubectl("config", "current-context").strip()

    def has_begun(self, name: str) -> bool:
        """Whether the sampler of a run has written something; seen in its node's folder, from outside."""
        pod = self.api.get(PODS, name, self.namespace)
        written = f"node*/var/lib/kubelet/pods/{pod['metadata']['uid']}/volumes/*/*/run/record.jsonl"
        files = self.cluster.kubeconfig.parent.glob(written)
        return pod_manifest.standing(pod).phase == "Running" and any(file.stat().st_size for file in files)

    def left(self) -> list[str]:
        found = []
        for kind in (PODS, CONFIG_MAPS):
            here, _ = self.api.list(kind, self.namespace, labels=pod_manifest.LABEL)
            found += [f"{kind.name} {one['metadata']['name']}" for one in here]
        return found


@pytest.fixture
def place(nodes: Cluster, nodes_namespace: str) -> Iterator[Place]:  # noqa: F811 - fixtures
    there = Place(nodes, nodes_namespace)
    yield there
    there.api.close()


class TestKubernetes(DriverContract):
    fields = FIELDS

    @pytest.fixture(autouse=True)
    def here(self, place: Place) -> None:
        self.place = place

    @pytest.fixture
    def driver(self) -> Driver:
        return self.place.driver()

    @pytest.fixture
    def again(self) -> Driver:
        return self.place.driver()

    def left(self) -> list[str]:
        return self.place.left()

    def test_a_pod_that_somebody_deletes_was_killed(self, ready: Driver) -> None:
        started = ready.start(Order(name="one", argv=("python3", "program.py", "hang")))

        def delete(said: str) -> None:
            if said.startswith("running"):
                self.place.api.delete(PODS, started.handle, self.place.namespace, grace=0)

        ending = ready.wait(started, 60.0, delete)
        assert ending.end is EndingKind.KILLED
        assert "deleted" in ending.why

    def test_a_run_that_is_taken_back_still_sends_its_record(self, ready: Driver) -> None:
        started = ready.start(Order(name="one", argv=("python3", "program.py", "hang")))
        until(lambda: self.place.has_begun(started.handle), "the sampler has begun")
        ending = ready.wait(started, 0.0, lambda _: None)
        assert ending.end is EndingKind.TIMED_OUT
        assert read_record(ready.collect(started).record).name == "one"

    def test_the_way_to_a_node_and_the_start_of_the_program_are_told_apart(self, ready: Driver) -> None:
        ending, record, _ = run(ready, Order(name="one", argv=("python3", "program.py")))
        assert ending.queued is not None
        assert ending.startup is not None
        assert ending.node in ("node1", "node2")
        assert record.node.host == pod_manifest.name_of(staging_key(ready), "one")


def staging_key(driver: Driver) -> str:
    assert isinstance(driver, Kubernetes)
    return driver._key


def prepared(place: Place, folder: Path, **fields: object) -> tuple[Kubernetes, Workload]:
    (folder / "work").mkdir()
    workload = a_workload(folder / "work", **{**FIELDS, **fields})
    driver = place.driver()
    driver.prepare(workload, a_bundle(folder / "bundle", workload))
    return driver, workload


def test_an_image_that_cannot_be_had_fails_its_check_and_names_it(place: Place, tmp_path: Path) -> None:
    driver, workload = prepared(place, tmp_path, image="localhost/nothing:1")
    try:
        checks = {check.name: check for check in driver.preflight(workload)}
        ending = driver.wait(driver.start(Order(name="one", argv=("true",))), 60.0, lambda _: None)
    finally:
        driver.clean_up()
    assert (ending.end, ending.why.partition(":")[0]) == (EndingKind.NEVER_STARTED, "ErrImageNeverPull")
    assert checks["image"].verdict is PreflightStatus.FAILED
    assert "localhost/nothing:1: ErrImageNeverPull" in checks["image"].found
    assert checks["probe"].verdict is PreflightStatus.FAILED
    assert place.left() == []


def test_pretended_gpus_are_given_and_found_not_to_compute(place: Place, tmp_path: Path) -> None:
    driver, workload = prepared(place, tmp_path, resources={"gpu": 1})
    try:
        checks = {check.name: check for check in driver.preflight(workload)}
    finally:
        driver.clean_up()
    assert checks["GPU computes"].verdict is PreflightStatus.FAILED
    assert "libcuda" in checks["GPU computes"].found


def test_a_namespace_that_is_not_there_is_named(place: Place, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    workload = a_workload(tmp_path / "work", **FIELDS)
    driver = Kubernetes(
        Environment(EnvironmentKind.KUBERNETES, f"{place.context}/nowhere", "kubernetes"),
        kubeconfig=place.cluster.kubeconfig,
    )
    with pytest.raises(DriverFailed, match="nowhere"):
        driver.prepare(workload, a_bundle(tmp_path / "bundle", workload))
    driver.clean_up()


def test_this_machine_is_compared_with_a_cluster_by_one_command(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(place.cluster.kubeconfig))
    environment = f"kubernetes={place.context}/{place.namespace}"
    job = a_job(tmp_path / "job", **FIELDS)
    code, report, _ = compare(job, "local", environment, out=tmp_path / "out")
    assert code == 0
    labels = [side["label"] for side in report["environments"]]
    check_whole(report, labels)
    there = sides(report)[labels[1]]
    assert there["runs"][0]["node"]["container"]
    assert len(there["manual_steps"]) == 3
    assert place.left() == []


def test_a_cluster_that_lacks_the_data_leaves_a_partial_report_that_names_the_step(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(place.cluster.kubeconfig))
    environment = f"kubernetes={place.context}/{place.namespace}"
    (tmp_path / "data").write_text("on this machine only")
    job = a_job(tmp_path / "job", **FIELDS, data=[str(tmp_path / "data")])
    code, report, _ = compare(job, "local", environment, out=tmp_path / "out")
    assert code == 1
    [here, there] = report["environments"]
    assert (here["blocked"], len(here["runs"])) == (None, 1)
    assert there["blocked"]["step"] == "preflight"
    assert f"data readable: not there, or not to be read: {tmp_path / 'data'}" in there["blocked"]["why"]
    assert place.left() == []
