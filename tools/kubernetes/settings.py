"""What one test cluster is: name, shape and addresses, kept in its folder so that any later command knows.

Clusters live in folders under one base, /tmp/grus-kubernetes-UID by default: short, since the paths of unix
sockets may not be longer than about 100 characters.
"""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.kubernetes.build import Unavailable
from tools.kubernetes.processes import Mark, record, recorded

SLOTS = range(60)
FIRST_PORT = 21000  # below the ports that the system gives to clients, so nobody gets ours by chance
FIRST_NET = 190  # 10.190.0.0/16 and on


def base() -> Path:
    return Path(os.environ.get("GRUS_KUBERNETES_RUN") or f"/tmp/grus-kubernetes-{os.getuid()}")


@dataclass(frozen=True, slots=True)
class Settings:
    name: str
    slot: int
    """Tells apart the clusters that live at the same time: ports, networks and bridges follow from it."""
    programs: str
    """The folder that holds the programs."""
    nodes: int = 0
    gpus: int = 4
    """Pretend GPUs of each node."""
    resource: str = "nvidia.com/gpu"
    without: tuple[str, ...] = ()
    """Of kube-controller-manager and kube-scheduler, those that do not run."""
    flags: tuple[tuple[str, str], ...] = ()
    """(program, one more flag of it)."""
    images: tuple[str, ...] = ()
    """Archives of images that the nodes get."""

    @property
    def folder(self) -> Path:
        return base() / self.name

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def bridge(self) -> str:
        return f"grus{self.slot}"

    @property
    def net(self) -> str:
        """The first two numbers of all addresses of pods, nodes and services."""
        return f"10.{FIRST_NET + self.slot}"

    @property
    def host(self) -> str:
        """Where the API server listens.

        With real nodes it is the address that the service `kubernetes` gets, the first of its range, and an
        address of the bridge: pods find the API server as in any cluster, though nobody routes services here.
        """
        return f"{self.net}.255.1" if self.nodes else "127.0.0.1"

    @property
    def port(self) -> int:
        return 443 if self.nodes else self.ports[0]

    @property
    def ports(self) -> Sequence[int]:
        """On 127.0.0.1: the API server's, and two of etcd."""
        first = FIRST_PORT + 10 * self.slot
        return (first, first + 1, first + 2)

    def node_address(self, number: int) -> str:
        return f"{self.net}.0.{10 + number}"

    def more(self, program: str) -> Sequence[str]:
        return [flag for name, flag in self.flags if name == program]


def save(settings: Settings) -> None:
    settings.folder.mkdir(parents=True, exist_ok=True)
    fresh = settings.folder / "settings.new"
    fresh.write_text(json.dumps(asdict(settings), indent=1))
    fresh.replace(settings.folder / "settings.json")


def load(folder: Path) -> Settings | None:
    """None of a folder whose maker died before the first process was started."""
    try:
        raw = json.loads((folder / "settings.json").read_text())
    except FileNotFoundError:
        return None
    return Settings(
        **{
            **raw,
            "without": tuple(raw["without"]),
            "flags": tuple((program, flag) for program, flag in raw["flags"]),
            "images": tuple(raw["images"]),
        }
    )


def users(folder: Path) -> Sequence[Mark]:
    """The processes for which the cluster was started, living or not; none: it stays until it is stopped."""
    return [mark for file in sorted((folder / "users").glob("*")) if (mark := recorded(file))]


def add_user(folder: Path, pid: int) -> None:
    (folder / "users").mkdir(exist_ok=True)
    record(folder / "users" / str(pid), Mark.of(pid))


def remove_user(folder: Path, pid: int) -> None:
    (folder / "users" / str(pid)).unlink(missing_ok=True)


def all_clusters() -> Iterator[Settings]:
    for folder in sorted(base().glob("*/")):
        if settings := load(folder):
            yield settings


def free_slot(nodes: int) -> int:
    """To be asked for and saved under one lock."""
    taken = {settings.slot for settings in all_clusters()}
    for slot in SLOTS:
        trial = Settings("", slot, "", nodes)
        if slot not in taken and all(map(bindable, trial.ports)) and not (nodes and network_used(trial)):
            return slot
    raise Unavailable(f"all {len(SLOTS)} places for test clusters are taken: tools/kubernetes/down --all")


def bindable(port: int) -> bool:
    with closing(socket.socket()) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def network_used(trial: Settings) -> bool:
    """Whether the machine already has such a bridge, or a way to such addresses."""
    shown = subprocess.run(["ip", "-o", "route", "show"], capture_output=True, text=True, check=True).stdout
    return device_exists(trial.bridge) or f"{trial.net}." in shown


def device_exists(name: str) -> bool:
    """In the network of this process; /sys/class/net may show that of another one."""
    return any(name == one for _, one in socket.if_nameindex())


def environment(programs: str) -> Mapping[str, str]:
    """For the programs: our own first, then the system's folders, which a bare environment lacks."""
    path = os.pathsep.join((programs, os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin", "/sbin", "/bin"))
    return {"PATH": path, "HOME": os.environ.get("HOME", "/"), "GRUS_KUBERNETES_RUN": str(base())}


def need(*tools: str) -> None:
    missing = [tool for tool in tools if not shutil.which(tool, path=environment("")["PATH"])]
    if missing:
        raise Unavailable(f"a test cluster needs {', '.join(missing)}: tools/system-packages installs that")
