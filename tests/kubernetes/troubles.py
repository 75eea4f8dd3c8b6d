"""A controller whose API server fails while it works: `python -m tests.kubernetes.troubles [N] [--minute]`

In each of N rounds gangs and plain pods are asked for while one kind of trouble goes on. When it is over all
must come out whole by itself: every gang complete and running, every pod on one node, no node overfull, the
controller the same process as before. Then all of it ends, and nothing may be left. With `--minute` errors
and silence last a minute. The last line is one JSON object: the longest that it took after each trouble.
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from grus.kubernetes.client.api import Api, Object, ResourceKind
from grus.kubernetes.client.leader_election import epoch_of
from grus.kubernetes.client.resource_kinds import GPU_JOBS, LEASES, NAMESPACES, NODES, PODS, SERVICES
from grus.operator.options import SYSTEM
from tests.kubernetes.clusters import ROOT, Cluster, shared, tool, until
from tests.kubernetes.faults import LOST, PASS, SILENT, Faults, everything
from tests.kubernetes.kubelets import Kubelets, add_nodes
from tests.kubernetes.pool import pods_can_be_made, prepare
from tools.kubernetes.processes import end, recorded

NODES_, GPUS = 4, 8
GANGS = {"eight": 8, "twelve": 12}
PLAIN = ("one", "two", "three", "four")
WITHOUT = ("--without", "kube-scheduler")
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Scene:
    """One controller process on pretend nodes, behind a way that fails on demand."""

    def __init__(self, cluster: Cluster, folder: Path, seconds: float) -> None:
        self.cluster = cluster
        self.seconds = seconds
        """How long errors and silence last."""
        self._folder = folder
        self._stack = ExitStack()
        self.api = Api.connect(cluster.kubeconfig, connections=16)
        self._stack.callback(self.api.close)
        self.namespace = f"troubles-{uuid.uuid4().hex[:6]}"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _start(self) -> None:
        prepare(self.api)
        self.api.create(NAMESPACES, {"metadata": {"name": self.namespace}})
        until(lambda: pods_can_be_made(self.api, self.namespace), "pods can be made")
        self.kubelets = self._stack.enter_context(Kubelets(self.api))
        names = [f"trouble-{number}" for number in range(NODES_)]
        add_nodes(self.api, names, GPUS, port=self.kubelets.port)
        for name in names:
            self._stack.callback(self.api.delete, NODES, name)
        self.faults = Faults(self.cluster.kubeconfig, self._folder)
        self._stack.callback(self.faults.close)
        self.log = self._folder / "controller.log"
        words = [f"--kubeconfig={self.faults.kubeconfig}", f"--state={self._folder / 'state'}", "--renew=1"]
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "grus.operator", *words], stdout=out, stderr=out, cwd=ROOT
            )
        self._stack.callback(self._stop)
        until(lambda: "ready: leading" in self.log.read_text(), "the controller leads")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _stop(self) -> None:
        self.process.terminate()
        self.process.wait(300)

    # ----------------------------------------------------------------------------------------- a round

    def round(self, trouble: "Trouble") -> float:
        """Seconds from the end of the trouble until everything was whole."""
        self.submit()
        try:
            trouble(self)
        finally:
            self.faults.rule = everything(PASS)
        began = time.monotonic()
        until(self.whole, f"all is whole again; see {self.log}")
        took = time.monotonic() - began
        self.check()
        self.finish()
        return took

    def submit(self) -> None:
        for name, size in GANGS.items():
            spec = {"run": "true", "launch": "per-gpu", "resources": {"gpu": size}, "image": "none"}
            self.api.create(GPU_JOBS, {"metadata": {"name": name}, "spec": spec}, self.namespace)
        for name in PLAIN:
            self.api.create(PODS, a_plain_pod(name), self.namespace)

    def pods(self) -> list[Object]:
        assert self.process.poll() is None, f"the controller has ended: {self.log.read_text()[-1000:]}"
        return self.api.list(PODS, self.namespace)[0]

    def whole(self) -> bool:
        jobs, _ = self.api.list(GPU_JOBS, self.namespace)
        running = {
            one["metadata"]["name"] for one in jobs if (one.get("status") or {}).get("phase") == "running"
        }
        placed = [pod for pod in self.pods() if pod["spec"].get("nodeName")]
        return running == set(GANGS) and len(placed) >= sum(GANGS.values()) + len(PLAIN)

    def check(self) -> None:
        """Nothing twice, nothing too much, and nobody else has led."""
        pods = self.pods()
        owners = Counter(
            (one["metadata"].get("ownerReferences") or [{"name": ""}])[0]["name"] for one in pods
        )
        assert owners == {**GANGS, "": len(PLAIN)}, owners
        nodes = Counter(pod["spec"]["nodeName"] for pod in pods)
        assert max(nodes.values()) <= GPUS, nodes
        workers = [pod["metadata"]["annotations"]["grus.dev/worker"] for pod in pods if is_worker(pod)]
        assert len(set(workers)) == sum(GANGS.values())
        assert epoch_of(self.api.get(LEASES, "grus-controller", SYSTEM)) == 1

    def finish(self) -> None:
        for pod in self.pods():
            self.kubelets.finish(self.namespace, pod["metadata"]["name"])
        until(lambda: self.phases() == {"succeeded"}, "the gangs have succeeded")
        for name in GANGS:
            self.api.delete(GPU_JOBS, name, self.namespace)
        for name in PLAIN:
            self.api.delete(PODS, name, self.namespace, grace=0)
        until(lambda: self.nothing_left(GPU_JOBS, PODS), "no job and no pod is left")

    def sweep(self) -> None:
        """At the end: the cluster's own collector needs half a minute until it knows of GpuJobs."""
        until(lambda: self.nothing_left(SERVICES), "no service is left")

    def phases(self) -> set[str]:
        assert self.pods(), "pods go with their jobs"
        return {one["status"]["phase"] for one in self.api.list(GPU_JOBS, self.namespace)[0]}

    def nothing_left(self, *kinds: ResourceKind) -> bool:
        return not any(self.api.list(kind, self.namespace)[0] for kind in kinds)

    def wait_asked(self, count: int, chosen: Callable[[str, str], bool] = lambda method, path: True) -> None:
        """Until the controller has made so many more requests of a kind."""
        there = len(self.faults.asked)
        until(
            lambda: sum(chosen(*one) for one in itertools.islice(self.faults.asked, there, None)) >= count,
            "the controller has asked",
        )


# -------------------------------------------------------------------------------------------- troubles

Trouble = Callable[[Scene], None]


def cuts(scene: Scene) -> None:
    """All connections are cut, again and again, in the middle of what they do."""
    for _ in range(5):
        scene.wait_asked(3)
        scene.faults.cut()


def forgotten(scene: Scene) -> None:
    """No watch can go on where the last one ended."""
    scene.faults.rule = lambda method, path: 410 if is_watch(method, path) else PASS
    scene.faults.cut()
    scene.wait_asked(12, is_watch)


def errors(scene: Scene) -> None:
    """Nothing but 503, for a while."""
    scene.faults.rule = everything(503)
    scene.faults.cut()
    threading.Event().wait(scene.seconds)


def silence(scene: Scene) -> None:
    """Connections stay, and nobody answers; for a while."""
    scene.faults.rule = everything(SILENT)
    threading.Event().wait(scene.seconds)
    scene.faults.rule = everything(PASS)
    scene.faults.cut()


def conflicts(scene: Scene) -> None:
    """Every second change is refused, as if somebody else had been faster."""
    turn = itertools.cycle([409, PASS])
    scene.faults.rule = lambda method, path: next(turn) if method in ("PUT", "PATCH") else PASS
    until(scene.whole, "conflicts alone stop nothing")


def lost_answers(scene: Scene) -> None:
    """Every third write is carried out, but its answer never comes."""
    turn = itertools.cycle([PASS, PASS, LOST])
    scene.faults.rule = lambda method, path: next(turn) if method in WRITES else PASS
    until(scene.whole, "lost answers alone stop nothing")


def restart(scene: Scene) -> None:
    """The API server is killed and started again."""
    restart_api_server(scene.cluster)


def restart_api_server(cluster: Cluster) -> None:
    mark = recorded(cluster.kubeconfig.parent / "processes" / "kube-apiserver")
    assert mark is not None
    end([mark])
    again = tool("up", "--name", cluster.name, *WITHOUT)
    assert again.returncode == 0, again.stderr


TROUBLES: dict[str, Trouble] = {
    one.__name__: one for one in (cuts, forgotten, errors, silence, conflicts, lost_answers, restart)
}


def a_plain_pod(name: str) -> Object:
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {
        "metadata": {"name": name, "labels": {"grus.dev/queue": "default"}},
        "spec": {"schedulerName": "grus", "containers": [container], "restartPolicy": "Never"},
    }


def is_watch(method: str, path: str) -> bool:
    return method == "GET" and "watch=true" in path


def is_worker(pod: Object) -> bool:
    return bool(pod["metadata"].get("ownerReferences"))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rounds", nargs="?", type=int, default=1)
    parser.add_argument("--minute", action="store_true")
    words = parser.parse_args()
    took: dict[str, list[float]] = {name: [] for name in TROUBLES}
    with (
        shared("troubles", *WITHOUT) as cluster,
        tempfile.TemporaryDirectory() as folder,
        Scene(cluster, Path(folder), seconds=60.0 if words.minute else 5.0) as scene,
    ):
        for number, (name, trouble) in itertools.product(range(words.rounds), TROUBLES.items()):
            took[name].append(scene.round(trouble))
            print(f"round {number + 1}, {name}: whole after {took[name][-1]:.1f} s", file=sys.stderr)
        scene.sweep()
    longest = {f"{name}_s": round(max(values), 1) for name, values in took.items()}
    print(json.dumps({"rounds": words.rounds, "minute": words.minute, **longest}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
