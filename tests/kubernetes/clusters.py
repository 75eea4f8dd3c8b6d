"""A real Kubernetes for tests: started for a run, shared by its processes, stopped by the last of them."""

import os
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from lightkube import Client, KubeConfig
from lightkube.core.exceptions import ApiError
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources import core_v1 as resources

from tests.kubernetes.objects import a_pod
from tests.runs.record import VARIABLE
from tests.waiting import poll
from tools.kubernetes.build import built
from tools.kubernetes.settings import Settings, all_clusters, base, device_exists, load, users

ROOT = Path(__file__).resolve().parents[2]
CANNOT_BE_HAD = 3  # what `up` ends with where there is no way to a cluster
PATIENCE = 300.0
"""Seconds after which a test stops waiting for the cluster; generous, since only failures spend them."""


USES = Counter[str]()
"""Uses of each cluster in this process."""


@dataclass(frozen=True, slots=True)
class Cluster:
    kubeconfig: Path
    name: str

    def client(self, namespace: str = "default") -> Client:
        return Client(KubeConfig.from_file(self.kubeconfig), namespace=namespace, trust_env=False)

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """What kubectl prints; raises CalledProcessError, with what it complained of, if it fails."""
        return subprocess.run(
            [
                kubectl(),
                f"--kubeconfig={self.kubeconfig}",
                f"--cache-dir={self.kubeconfig.parent}/cache",
                *words,
            ],
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        ).stdout

    def unplug(self, node: str) -> None:
        """As by a power cut."""
        done = tool("down", "--name", self.name, "--node", node)
        assert done.returncode == 0, done.stderr


def kubectl() -> Path:
    return Path(os.environ.get("KUBEBUILDER_ASSETS") or built(), "kubectl")


def tool(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs tools/kubernetes with the interpreter of the tests."""
    return subprocess.run(
        [sys.executable, "-m", "tools.kubernetes", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def shared(kind: str, *words: str) -> Iterator[Cluster]:
    """A cluster for this run of the tests, whichever of its processes ask for it.

    The last of them to end stops it, after its last use: a fixture that another module imports is set up
    twice in one process.
    """
    if VARIABLE not in os.environ:  # a run of pytest removes what earlier runs left when it begins
        tool("down", "--orphans")
    mine = ("--name", name_of(kind), "--user", str(os.getpid()))
    USES[mine[1]] += 1
    try:
        started = tool("up", *mine, *words)
        if started.returncode == CANNOT_BE_HAD:
            pytest.skip(reason(started.stderr))
        assert started.returncode == 0, started.stderr
        yield Cluster(Path(started.stdout.strip()), mine[1])
    finally:
        USES[mine[1]] -= 1
        if not USES[mine[1]]:
            leave(mine)


def leave(mine: tuple[str, str, str, str]) -> None:
    settings = load(base() / mine[1])
    stopped = tool("down", *mine)
    assert stopped.returncode == 0, stopped.stderr
    if settings and not settings.folder.exists():  # we were the last
        assert left(settings) == []


def name_of(kind: str) -> str:
    """Of this run's cluster of that kind."""
    run = Path(os.environ.get(VARIABLE) or f"{os.getpid()}").name
    return f"tests-{run}-{kind}"


def reason(complaint: str) -> str:
    """The line that says why there is no cluster, of all that `up` said on the way."""
    lines = complaint.strip().splitlines()
    return next((line for line in lines if "no cluster can be had here" in line), lines[-1])


def left(settings: Settings) -> list[str]:
    """What of a stopped cluster is still there: bridge, control groups, processes that name its folder."""
    groups = Path("/sys/fs/cgroup").glob(f"**/grus-{settings.name}-node*")
    inside = f"{settings.folder}/"  # not that of another cluster whose name only begins the same
    commands = [file for file in Path("/proc").glob("[0-9]*/cmdline") if inside in text_of(file)]
    bridge = [settings.bridge] if device_exists(settings.bridge) else []
    return [*bridge, *(str(path) for path in (*groups, *commands) if path.exists())]


def text_of(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:  # ended meanwhile
        return ""


@contextmanager
def new_namespace(client: Client) -> Iterator[str]:
    """A namespace in which pods can be made; afterwards it goes in its own time."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    client.create(resources.Namespace(metadata=ObjectMeta(name=name)))
    until(lambda: accepted(client, a_pod("trial"), name), f"pods are accepted in {name}")
    yield name
    try:
        client.delete(resources.Namespace, name)
    except Exception as error:
        error.add_note(f"clusters that there are: {there() or 'none'}")
        raise


def there() -> str:
    """Clusters of this user, for whom each is, and whether its bridge stands: if one is gone, who is left?"""
    return "; ".join(
        f"{one.name} for {[(user.pid, user.alive()) for user in users(one.folder)]}"
        f"{'' if not one.nodes or device_exists(one.bridge) else ', without its bridge'}"
        for one in all_clusters()
    )


def accepted(client: Client, pod: resources.Pod, namespace: str) -> bool:
    """Whether it could be made; not before the controllers have given its namespace a service account."""
    try:
        client.create(pod, namespace=namespace, dry_run=True)
    except ApiError as refusal:
        if refusal.status.code not in (403, 500):  # no account yet; no token yet
            raise
        return False
    return True


def until(true: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    """Waits for something that the cluster does in its own time."""
    assert poll(true, patience), f"not within {patience:.0f} s: {what}"
