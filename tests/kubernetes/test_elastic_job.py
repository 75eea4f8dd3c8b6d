"""From nothing to an elastic training on two real nodes: it grows, shrinks, and survives `kill -9` of a
worker, then of the controller, a node agent and a kubelet at the same time.

The program is as a user writes it, its code reaches the pods as a bundle, and everything is asked for with
kubectl. The nodes have GPUs that another scheduler's pods hold: three are left, on both nodes.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from grus.elastic import audit
from grus.kubernetes.bundle import code_bundles
from grus.kubernetes.client.api import Api, Object
from grus.kubernetes.client.resource_kinds import CONFIG_MAPS, LEASES, PODS, SERVICES
from grus.kubernetes.install.custom_resources import API_VERSION, definitions
from grus.kubernetes.names import AGENT, JOB
from grus.kubernetes.node.cgroups import Groups
from tests.elastic import curves
from tests.elastic.curves import Line
from tests.kubernetes import agents as node_agents
from tests.kubernetes.clusters import Cluster, new_namespace, until
from tests.kubernetes.conftest import NODES, real_nodes
from tests.kubernetes.engine.conftest import template
from tests.kubernetes.objects import ROOT, a_pod

PROGRAM = "from tests.elastic.trainee import main\n\nmain()\n"
SAMPLES, EPOCHS = 509, 20
EVERY = 2.0
"""Seconds a step while something is waited for: the training must not end before, however long that takes."""
CLOSE = 1e-3
"""Relative difference of losses that the order of a sum may make; see docs/elastic-training.md."""


@dataclass
class Training:
    """A run, by what its workers write into the folder that they share with the test."""

    folder: Path
    moved: float = field(default_factory=time.monotonic)

    def settings(self) -> str:
        return json.dumps({"folder": str(self.folder), "samples": SAMPLES, "epochs": EPOCHS})

    def newest(self) -> Line | None:
        if not (self.folder / "steps").exists():
            return None
        lines = [own[-1] for own in curves.lines(self.folder).values() if own]
        return max(lines, key=lambda line: (line.attempt, line.team, line.step), default=None)

    def until(self, fits: Callable[[Line], bool], what: str) -> Line:
        """Go on step by step until the newest one fits."""

        def looked() -> bool:
            line = self.newest()
            if time.monotonic() > self.moved + EVERY:
                self.moved = time.monotonic()
                (self.folder / "gate").write_text(str(line.step + 2 if line else 1))
            return line is not None and fits(line)

        until(looked, what)
        line = self.newest()
        assert line is not None
        return line

    def rush(self) -> None:
        """To the end, as fast as it goes."""
        (self.folder / "gate").unlink()


@pytest.fixture(scope="module")
def pool() -> Iterator[Cluster]:
    """Two real nodes and their agents, for one controller alone: it would end the pods of other tests."""
    with real_nodes("elastic") as cluster:
        api = Api.connect(cluster.kubeconfig)
        node_agents.install(api, NODES)
        api.close()
        yield cluster


@pytest.fixture
def api(pool: Cluster) -> Iterator[Api]:
    connected = Api.connect(pool.kubeconfig)
    yield connected
    connected.close()


@pytest.fixture
def place(pool: Cluster) -> Iterator[str]:
    """A fresh namespace."""
    with pool.client() as client, new_namespace(client) as name:
        yield name


@pytest.fixture
def training(tmp_path: Path) -> Training:
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "gate").write_text("0")
    return Training(folder)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Training]:
    """The same training in one process that nothing happens to; it runs beside the other."""
    folder = tmp_path / "alone"
    folder.mkdir()
    run = Training(folder)
    surroundings = {**os.environ, "TRAINEE": run.settings(), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([sys.executable, "-m", "tests.elastic.trainee"], cwd=ROOT, env=surroundings) as one:
        yield run
        one.kill()


class Controllers:
    """One controller after the other on this machine; each has to find out everything by itself."""

    def __init__(self, pool: Cluster, folder: Path) -> None:
        self._folder = folder
        (folder / "template.json").write_text(json.dumps(template(folder / "shared")))
        self._command = [sys.executable, "-m", "grus.operator", "--kubeconfig", str(pool.kubeconfig)]
        self._command += ["--template", str(folder / "template.json"), "--lease", "8", "--renew", "2"]
        self._number = 0
        self._start()

    def _start(self) -> None:
        self._number += 1
        own = self._folder / f"controller{self._number}"
        own.mkdir()
        with (own / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*self._command, "--state", str(own)], cwd=ROOT, stderr=log, start_new_session=True
            )

    def replace(self) -> None:
        """The one that leads dies without a word."""
        self._process.kill()
        self._process.wait()
        self._start()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(300)


@pytest.fixture
def controllers(pool: Cluster, tmp_path: Path, training: Training) -> Iterator[Controllers]:
    whole = {"kind": "List", "apiVersion": "v1", "items": definitions()}
    pool.kubectl("apply", "--filename=-", stdin=json.dumps(whole))
    made = Controllers(pool, tmp_path)
    yield made
    made.close()


@contextmanager
def occupied(api: Api, namespace: str, gpus: dict[str, int]) -> Iterator[None]:
    """GPUs of these nodes are held by pods that are none of Grus's."""
    for node, count in gpus.items():
        api.create(
            PODS, a_pod(f"other-{node}", "sleep", "infinity", node=node, gpus=count).to_dict(), namespace
        )
    for node in gpus:
        until(lambda node=node: phase(api, f"other-{node}", namespace) == "Running", "others run")  # type: ignore[misc]  # mypy cannot infer lambdas with defaults
    yield
    for node in gpus:
        api.delete(PODS, f"other-{node}", namespace, grace=0)


def phase(api: Api, name: str, namespace: str) -> str:
    return str(api.get(PODS, name, namespace)["status"].get("phase"))


def a_job(training: Training, workdir: str) -> Object:
    """One to three workers, two at first."""
    return {
        "apiVersion": API_VERSION,
        "kind": "GpuJob",
        "metadata": {"name": "elastic"},
        "spec": {
            "run": ["sh", "-c", f"NAME=$HOSTNAME exec {sys.executable} train.py"],
            "workdir": workdir,
            "resources": {"gpu": "1..3"},
            "replicas": 2,
            "env": {
                "TRAINEE": training.settings(),
                "PYTHONPATH": f"{ROOT}/src:{ROOT}",
                "OMP_NUM_THREADS": "1",
            },
            "checkpoint": {"grace": "20s"},
        },
    }


def workers(api: Api, namespace: str) -> dict[str, Object]:
    """Pods that run, by uid."""
    found, _ = api.list(PODS, namespace, labels=JOB)
    return {one["metadata"]["uid"]: one for one in found if one["status"].get("phase") == "Running"}


def process(pod: Object, program: str) -> int:
    """The one in a pod that runs this program, by its number on this machine."""
    found = Groups(Path("/sys/fs/cgroup")).processes(pod["metadata"]["uid"])
    return next(pid for pid in found if program in command(pid))


def agent(api: Api, node: str) -> Object:
    """Its pod."""
    found, _ = api.list(PODS, node_agents.SYSTEM, labels=AGENT, fields=f"spec.nodeName={node}")
    (one,) = found
    return one


def restarted(pod: Object) -> bool:
    (status,) = pod["status"]["containerStatuses"]
    return bool(status["restartCount"]) and "running" in status["state"]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def kubelet(cluster: Cluster, node: str) -> int:
    marks = (f"--kubeconfig={cluster.kubeconfig}", f"--hostname-override={node}")
    (found,) = [
        int(folder.name)
        for folder in Path("/proc").glob("[0-9]*")
        if all(mark in command(int(folder.name)) for mark in marks)
    ]
    return found


def renewed(api: Api, node: str) -> str:
    return str(api.get(LEASES, node, "kube-node-lease")["spec"]["renewTime"])


def test_an_elastic_training_grows_shrinks_and_survives_on_two_nodes(
    pool: Cluster,
    api: Api,
    place: str,
    training: Training,
    alone: Training,
    controllers: Controllers,
    tmp_path: Path,
) -> None:
    def kubectl(*words: str, stdin: str | None = None) -> str:
        return pool.kubectl(f"--namespace={place}", *words, stdin=stdin)

    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(PROGRAM)
    workdir = code_bundles.publish(api, place, code_bundles.pack(code))
    with occupied(api, place, {"node1": 3, "node2": 2}):
        kubectl("apply", "--filename=-", stdin=json.dumps(a_job(training, workdir)))
        training.until(lambda line: line.world == 2, "it runs")

        kubectl("scale", "gpujob", "elastic", "--replicas=3")
        grown = training.until(lambda line: line.world == 3, "it grows")
        running = workers(api, place)
        assert {one["spec"]["nodeName"] for one in running.values()} == {"node1", "node2"}

        victim, pod = next(iter(running.items()))
        os.kill(process(pod, "train.py"), signal.SIGKILL)
        back = training.until(lambda line: line.world == 3 and line.team > grown.team, "it is whole again")
        running = workers(api, place)
        assert len(running) == 3
        assert victim not in running

        before = renewed(api, "node2")
        os.kill(process(agent(api, "node2"), "grus.kubernetes.agent"), signal.SIGKILL)
        os.kill(kubelet(pool, "node2"), signal.SIGKILL)
        controllers.replace()
        until(lambda: renewed(api, "node2") > before, "the kubelet is back")
        until(lambda: restarted(agent(api, "node2")), "the agent is back")
        on = training.until(lambda line: line.step > back.step + 1, "it goes on")
        assert (on.team, on.world) == (back.team, 3)
        assert workers(api, place).keys() == running.keys()

        kubectl("scale", "gpujob", "elastic", "--replicas=1")
        training.until(lambda line: line.world == 1, "it shrinks")
        until(lambda: len(workers(api, place)) == 1, "who left is gone")

        training.rush()
        kubectl("wait", "gpujob", "elastic", "--for=condition=Complete", "--timeout=300s")
    check(training, alone)
    kubectl("delete", "gpujob", "elastic", "--timeout=300s")
    until(lambda: not left(api, place), "nothing is left")


def check(training: Training, alone: Training) -> None:
    """The same curve as if nothing had happened, by workers that never disagreed, each sample used once."""
    found = curves.lines(training.folder)
    assert curves.unequal(found) == []
    assert {line.attempt for own in found.values() for line in own} == {1}
    findings = audit.check(training.folder / "audit", SAMPLES, EPOCHS)
    assert findings.wrong == ()
    until(lambda: finished(alone, findings.steps), "the one alone is done")
    assert curves.distance(curves.curve(found), curves.curve(curves.lines(alone.folder))) < CLOSE


def finished(training: Training, steps: int) -> bool:
    line = training.newest()
    return line is not None and line.step == steps - 1


def left(api: Api, namespace: str) -> Sequence[str]:
    found = [(PODS, JOB), (SERVICES, JOB), (CONFIG_MAPS, code_bundles.CODE)]
    return [
        one["metadata"]["name"]
        for kind, labels in found
        for one in api.list(kind, namespace, labels=labels)[0]
    ]
