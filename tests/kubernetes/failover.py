"""Two controllers, of which the one that leads is killed or stopped in the middle of starting gangs.

    python -m tests.kubernetes.failover 50

Each round makes gangs, slices and plain pods, hits the leader when some of their pods are there, and then
checks: no GPU is ever held by two pods; within a minute of the change of leader every gang is whole; nothing
is there that no record asks for; a stopped leader that wakes up changes nothing. In the end everything is
deleted, and nothing may be left. The nodes and their kubelets are pretended, the API server and both
controllers are real.
"""

import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from grus.engines.kubernetes.nodes import terminal
from grus.kubernetes.client.api import Api, Missing
from grus.kubernetes.client.informer import Reflector
from grus.kubernetes.client.resource_kinds import (
    GPU_JOBS,
    GPU_QUEUES,
    LEASES,
    NAMESPACES,
    PODS,
    SERVICES,
    Object,
    ResourceKind,
)
from grus.kubernetes.names import DEVICES, JOB, RESERVATION, WORKER
from grus.operator.options import SYSTEM
from tests.kubernetes.clusters import Cluster, shared
from tests.kubernetes.kubelets import Kubelets, add_nodes
from tests.kubernetes.pool import prepare

NODES, GPUS = 7, 8
GANGS, WIDE = 3, 16
SLICES, PLAIN = 2, 3
LEASE = 5
TEAM = "team"
MINUTE = 60.0
PATIENCE = 300.0


@dataclass(slots=True)
class Figures:
    """What a run found."""

    rounds: int = 0
    kills: int = 0
    stops: int = 0
    in_the_middle: int = 0
    """Rounds in which some pods of the gangs were there, and some were not, when the leader was hit."""
    double_bindings: int = 0
    """GPUs that two living pods held at a moment."""
    partial_gangs: int = 0
    """Gangs that were not whole a minute after the change of leader."""
    orphans: int = 0
    """Pods, services and reservations that no record asked for, at the end of a round or after all was
    deleted."""
    changed_by_the_woken: int = 0
    """Objects that changed while a stopped leader woke up and ended."""
    slowest: float = 0.0
    """Seconds from the change of leader until all was whole."""
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not (self.double_bindings or self.partial_gangs or self.orphans or self.changed_by_the_woken)


class Contender:
    """One controller process after another, under one name."""

    def __init__(self, name: str, kubeconfig: Path, folder: Path) -> None:
        self.name = name
        self._kubeconfig = kubeconfig
        self._state = folder / name
        self._said = folder / f"{name}.log"
        self._lives = 0
        self.process = self._start()

    @property
    def identity(self) -> str:
        return f"{self.name}-{self._lives}"

    def _start(self) -> "subprocess.Popen[bytes]":
        self._lives += 1
        command = [sys.executable, "-m", "grus.operator", "--kubeconfig", str(self._kubeconfig)]
        command += ["--state", str(self._state), "--identity", self.identity]
        command += ["--lease", str(LEASE), "--renew", "1"]
        with self._said.open("ab") as said:
            return subprocess.Popen(command, stdout=said, stderr=said)

    def hit(self, how: signal.Signals) -> None:
        self.process.send_signal(how)

    def restart(self) -> None:
        self.end()
        self.process = self._start()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.send_signal(signal.SIGCONT)
        self.process.wait()


class Witness:
    """Sees every change of a pod, and that no GPU is held twice."""

    def __init__(self, api: Api) -> None:
        self._lock = threading.Lock()
        self.twice: list[str] = []
        self._left = 0
        self._then: Callable[[], None] = lambda: None
        self._held: dict[str, str] = {}
        self.pods = Reflector(api, PODS, on_change=self._changed)
        self.pods.wait_synced(60)

    def arm(self, count: int, then: Callable[[], None]) -> None:
        """When that many more workers' pods have come, `then` is called at once."""
        with self._lock:
            self._left, self._then = count, then

    def _changed(self, kind: str, pod: Object) -> None:
        if kind == "ADDED" and JOB in (pod["metadata"].get("labels") or {}):
            self._left -= 1
            if self._left == 0:
                self._then()
        over = kind == "DELETED" or terminal(pod)
        uid = pod["metadata"]["uid"]
        with self._lock:
            self._held = {gpu: holder for gpu, holder in self._held.items() if holder != uid or not over}
            if over or _sliced(pod) or not pod["spec"].get("nodeName"):
                return
            for gpu in _gpus(pod):
                if self._held.setdefault(gpu, uid) != uid:
                    self.twice.append(f"{gpu}: {pod['metadata']['name']} and another")

    def close(self) -> None:
        self.pods.close()


class Proof:
    """The cluster, its two controllers, and what is asked of them."""

    def __init__(self, cluster: Cluster, folder: Path, seed: int) -> None:
        self.figures = Figures()
        self._chance = random.Random(seed)
        self._stack = ExitStack()
        self.api = Api.connect(cluster.kubeconfig, connections=16)
        self._stack.callback(self.api.close)
        prepare(self.api)
        self.api.create(NAMESPACES, {"metadata": {"name": TEAM}})
        _until(self._account, "the namespace has its account")
        self._kubelets = self._stack.enter_context(Kubelets(self.api))
        add_nodes(self.api, [f"n{number}" for number in range(NODES)], GPUS, port=self._kubelets.port)
        self._witness = Witness(self.api)
        self._stack.callback(self._witness.close)
        self._contenders = [Contender(name, cluster.kubeconfig, folder) for name in ("ann", "bob")]
        for contender in self._contenders:
            self._stack.callback(contender.end)
        self._leader()

    def close(self) -> None:
        self._stack.close()

    def round(self, number: int) -> None:
        """Make work, hit the leader in the middle of it, look what becomes of it, clear up."""
        self.figures.rounds += 1
        leader = self._leader()
        stopped = number % 2 == 1
        hit = threading.Event()

        def strike() -> None:
            leader.hit(signal.SIGSTOP if stopped else signal.SIGKILL)
            hit.set()

        self._witness.arm(self._chance.randint(1, GANGS * WIDE // 2), strike)
        names = self._make(number)
        _until(hit.is_set, "some pods of the gangs are there")
        self.figures.in_the_middle += 0 < len(self._pods(JOB)) < GANGS * WIDE
        self.figures.stops += stopped
        self.figures.kills += not stopped
        _until(lambda: self._holder() != leader.identity, "another one leads")
        changed = time.monotonic()
        self._wait_whole(names, changed)
        self.figures.slowest = max(self.figures.slowest, time.monotonic() - changed)
        if stopped:
            self._wake(leader)
        self._count_orphans()
        self._clear()
        leader.restart()
        self.figures.double_bindings = len(self._witness.twice)
        self.figures.problems += self._witness.twice[len(self.figures.problems) :]

    # ------------------------------------------------------------------------------------------ steps

    def _make(self, number: int) -> list[str]:
        names = [f"gang-{number}-{one}" for one in range(GANGS)]
        gang = {"run": "true", "launch": "per-gpu", "resources": {"gpu": WIDE}}
        half = {"run": "true", "resources": {"gpu": 0.5}}
        for name in names:
            self.api.create(GPU_JOBS, {"metadata": {"name": name, "namespace": TEAM}, "spec": gang})
        for one in range(SLICES):
            metadata = {"name": f"half-{number}-{one}", "namespace": TEAM}
            self.api.create(GPU_JOBS, {"metadata": metadata, "spec": half})
        limits = {"limits": {"nvidia.com/gpu": "1"}}
        spec = {"schedulerName": "grus", "containers": [{"name": "x", "image": "x", "resources": limits}]}
        for one in range(PLAIN):
            self.api.create(
                PODS, {"metadata": {"name": f"plain-{number}-{one}", "namespace": TEAM}, "spec": spec}
            )
        return names

    def _wait_whole(self, names: list[str], since: float) -> None:
        while not (whole := [self._whole(job) for job in self._jobs()]) or not all(whole) or self._unbound():
            if time.monotonic() - since > MINUTE:
                partial = [name for name in names if not self._whole(self.api.get(GPU_JOBS, name, TEAM))]
                self.figures.partial_gangs += len(partial)
                self.figures.problems += [f"not whole after a minute: {partial}, {self._unbound()}"]
                return
            time.sleep(0.2)

    def _whole(self, job: Object) -> bool:
        """Whether it runs with exactly the pods that its record asks for."""
        record = _record(job)
        if record.get("phase") != "running":
            return False
        pods = [pod for pod in self._pods(f"{JOB}={record['id']}") if not terminal(pod)]
        told = Counter((pod["metadata"].get("annotations") or {})[WORKER] for pod in pods)
        return told == Counter(_workers(job, record))

    def _unbound(self) -> list[str]:
        return [
            pod["metadata"]["name"]
            for pod in self.api.list(PODS, TEAM)[0]
            if pod["metadata"]["name"].startswith("plain") and not pod["spec"].get("nodeName")
        ]

    def _wake(self, leader: Contender) -> None:
        """A leader that was stopped goes on: it must end, and change nothing."""
        before = self._still()
        leader.hit(signal.SIGCONT)
        _until(lambda: leader.process.poll() is not None, "the stopped leader has ended")
        after = self._state()
        different = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
        self.figures.changed_by_the_woken += len(different)
        self.figures.problems += [f"changed by the woken: {name}" for name in different]

    def _still(self) -> dict[tuple[str, str], str]:
        """The state of everything, once two looks a second apart agree on it."""
        before = self._state()
        while True:
            time.sleep(1)
            now = self._state()
            if now == before:
                return now
            before = now

    def _state(self) -> dict[tuple[str, str], str]:
        kinds: tuple[ResourceKind, ...] = (GPU_JOBS, GPU_QUEUES, PODS, SERVICES)
        return {
            (kind.plural, one["metadata"]["uid"]): one["metadata"]["resourceVersion"]
            for kind in kinds
            for one in self.api.list(kind)[0]
        }

    def _count_orphans(self) -> None:
        """Workers, services and reservations of which no record knows."""
        records = [(job, _record(job)) for job in self._jobs()]
        workers = {worker for job, record in records for worker in _workers(job, record)}
        ids = {record["id"] for _, record in records}
        sliced = any(record["seats"][0]["share"] < 1_000_000 for _, record in records if record["seats"])
        strange = [
            f"pod {pod['metadata']['name']}"
            for pod in self._pods(JOB)
            if (pod["metadata"].get("annotations") or {}).get(WORKER) not in workers
        ]
        strange += [
            f"service {one['metadata']['name']}"
            for one in self.api.list(SERVICES, TEAM)[0]
            if (one["metadata"].get("labels") or {}).get(JOB, next(iter(ids))) not in ids
        ]
        reservations = self._pods(RESERVATION)
        strange += [f"reservation {one['metadata']['name']}" for one in reservations[1 if sliced else 0 :]]
        self.figures.orphans += len(strange)
        self.figures.problems += strange

    def _clear(self) -> None:
        """Delete everything; nothing may be left."""
        for job in self._jobs():
            self.api.delete(GPU_JOBS, job["metadata"]["name"], TEAM)
        for pod in self.api.list(PODS, TEAM)[0]:
            if JOB not in (pod["metadata"].get("labels") or {}):
                self.api.delete(PODS, pod["metadata"]["name"], TEAM)
        end = time.monotonic() + MINUTE
        while time.monotonic() < end and (left := list(self._left())):
            time.sleep(0.2)
        self.figures.orphans += len(left)
        self.figures.problems += left

    def _left(self) -> Iterator[str]:
        for kind in (GPU_JOBS, PODS, SERVICES):
            yield from (
                f"left: {kind.plural} {one['metadata']['name']}" for one in self.api.list(kind, TEAM)[0]
            )
        yield from (f"left: reservation {one['metadata']['name']}" for one in self._pods(RESERVATION))

    # ---------------------------------------------------------------------------------------- looking

    def _jobs(self) -> list[Object]:
        return self.api.list(GPU_JOBS, TEAM)[0]

    def _pods(self, labels: str) -> list[Object]:
        return self.api.list(PODS, labels=labels)[0]

    def _holder(self) -> str:
        try:
            return str(self.api.get(LEASES, "grus-controller", SYSTEM)["spec"].get("holderIdentity") or "")
        except Missing:
            return ""

    def _leader(self) -> Contender:
        found: list[Contender] = []

        def known() -> bool:
            holder = self._holder()
            found[:] = [one for one in self._contenders if one.identity == holder]
            return bool(found)

        _until(known, "somebody leads")
        return found[0]

    def _account(self) -> bool:
        try:
            self.api.get(ResourceKind("", "v1", "serviceaccounts", True, "ServiceAccount"), "default", TEAM)
        except Missing:
            return False
        return True


def _record(job: Object) -> Object:
    found: Object = json.loads((job.get("status") or {}).get("record") or "{}")
    return found


def _workers(job: Object, record: Object) -> list[str]:
    """The workers that a record asks for."""
    del job
    return [
        f"{record['id']}.{record['attempt']}.{seat['role']}.{seat['index']}.{seat['born']}"
        for seat in record.get("seats", [])
    ]


def _gpus(pod: Object) -> list[str]:
    said = (pod["metadata"].get("annotations") or {}).get(DEVICES, "")
    return [gpu for gpu in said.split(",") if gpu]


def _sliced(pod: Object) -> bool:
    """Slices share a GPU, which their reservation holds."""
    labels = pod["metadata"].get("labels") or {}
    limits = [one.get("resources", {}).get("limits", {}) for one in pod["spec"]["containers"]]
    return JOB in labels and not any("nvidia.com/gpu" in one for one in limits)


def _until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {PATIENCE:.0f} s: {what}")
        time.sleep(0.05)


def prove(rounds: int, seed: int = 0, tell: Callable[[str], None] = lambda _: None) -> Figures:
    """That many rounds on a cluster of its own."""
    with (
        shared("failover", "--without", "kube-scheduler") as cluster,
        tempfile.TemporaryDirectory() as folder,
    ):
        proof = Proof(cluster, Path(folder), seed)
        try:
            for number in range(rounds):
                proof.round(number)
                tell(f"round {number + 1}: {proof.figures}")
        finally:
            proof.close()
        return proof.figures


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    found = prove(rounds, tell=lambda text: print(text, flush=True))
    print(found)
    return 0 if found.good else 1


if __name__ == "__main__":
    sys.exit(main())
