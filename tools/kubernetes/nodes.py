"""Real nodes, seen from outside: the bridge that joins their pods, and what each node needs before it starts.

Nodes share this machine's network; each has an address of its own on the bridge, so that the usual ports
serve for all of them. Pods reach each other, the nodes and the API server, and nothing beyond: nothing is
routed.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tools.kubernetes import cgroups, image
from tools.kubernetes.build import Unavailable
from tools.kubernetes.control_plane import Access
from tools.kubernetes.node import IMAGE
from tools.kubernetes.processes import Mark, Processes, children, end, recorded
from tools.kubernetes.settings import Settings, device_exists, environment, need

ROOT = Path(__file__).resolve().parents[2]
HIDDEN = ("/var", "/run")
SANDBOX = 'plugins."io.containerd.grpc.v1.cri"'


def check(settings: Settings) -> None:
    """Raises Unavailable, with the reason, where real nodes cannot be had."""
    if os.geteuid() != 0:
        raise Unavailable("real nodes need root (namespaces, mounts, control groups)")
    need("ip", "unshare", "mount")
    missing = [name for name in ("kubelet", "containerd") if not Path(settings.programs, name).exists()]
    if missing:
        raise Unavailable(f"real nodes need {' and '.join(missing)}, which {settings.programs} lacks")
    if not importlib.util.find_spec("grpc"):
        raise Unavailable(f"pretend GPUs need the Python package grpcio, which {sys.executable} lacks")
    for place in (ROOT, Path(sys.prefix), Path(sys.base_prefix)):
        if any(place.resolve().is_relative_to(hidden) for hidden in HIDDEN):
            raise Unavailable(f"nodes have a {' and a '.join(HIDDEN)} of their own and would not see {place}")


def make_network(settings: Settings) -> None:
    """Before the API server starts: it listens on the bridge."""
    if device_exists(settings.bridge):
        return
    ip("link", "add", settings.bridge, "type", "bridge")
    ip("address", "add", f"{settings.net}.0.1/16", "dev", settings.bridge)
    ip("address", "add", f"{settings.host}/32", "dev", settings.bridge)
    for number in numbers(settings):
        ip("address", "add", f"{settings.node_address(number)}/32", "dev", settings.bridge)
    ip("link", "set", settings.bridge, "up")


def remove_network(settings: Settings) -> None:
    if device_exists(settings.bridge):
        ip("link", "delete", settings.bridge)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], env=environment(""), check=True)


def numbers(settings: Settings) -> range:
    return range(1, settings.nodes + 1)


def start(settings: Settings) -> None:
    """All nodes that do not run; returns when all are ready and show their GPUs."""
    began = datetime.now(UTC)
    image.write(
        settings.folder / "image.tar", IMAGE, {"/pause": Path(settings.programs, "pause")}, ["/pause"]
    )
    processes = Processes(settings.folder)
    surroundings = {**environment(settings.programs), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    for number in numbers(settings):
        if processes.alive(f"node{number}"):
            continue
        prepare(settings, number)
        inside = [
            "unshare",
            "--mount",
            "--propagation=private",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ]
        inside += [sys.executable, "-m", "tools.kubernetes.node", settings.name, str(number)]
        processes.start(f"node{number}", inside, surroundings)
    access = Access.of(settings)
    for number in numbers(settings):
        processes.wait(f"node{number}", partial(ready, access, settings, number, began), 180)


def ready(access: Access, settings: Settings, number: int, since: datetime) -> bool:
    """Of what the node itself has said since then: what it said before it fell silent still stands there."""
    answer = access.ask(f"/api/v1/nodes/node{number}")
    lease = access.ask(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node{number}")
    if (
        answer is None
        or lease is None
        or datetime.fromisoformat(json.loads(lease)["spec"]["renewTime"]) < since
    ):
        return False
    status = json.loads(answer)["status"]
    up = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ()))
    return up and status["allocatable"].get(settings.resource, "0") == str(settings.gpus)


def prepare(settings: Settings, number: int) -> None:
    folder = settings.folder / f"node{number}"
    # What a node keeps in /run does not survive its restart, as on any machine.
    shutil.rmtree(folder / "run", ignore_errors=True)
    for name in ("run", "var/lib/kubelet/device-plugins", "var/log/pods", "var/tmp", "cni"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    if not (folder / "var/run").is_symlink():
        (folder / "var/run").symlink_to("/run")
    shutil.copy("/etc/resolv.conf", folder / "resolv.conf")  # often a link into /run
    ids = [f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'node{number}-{index}')}" for index in range(settings.gpus)]
    (folder / "gpus.json").write_text(json.dumps(dict.fromkeys(ids, True), indent=1))
    (folder / "cni" / "10-bridge.conf").write_text(json.dumps(bridge(settings, number)))
    (folder / "containerd.toml").write_text(runtime(settings, folder))
    cgroups.make(cgroups.name(settings.name, number))


def bridge(settings: Settings, number: int) -> object:
    """How pods of a node are joined to the bridge; not as its gateway, which would switch on routing."""
    addresses = {
        "subnet": f"{settings.net}.0.0/16",
        "rangeStart": f"{settings.net}.{number}.2",
        "rangeEnd": f"{settings.net}.{number}.254",
        "gateway": f"{settings.net}.0.1",
    }
    return {
        "cniVersion": "0.4.0",
        "name": settings.bridge,
        "type": "bridge",
        "bridge": settings.bridge,
        "isGateway": False,
        "ipam": {"type": "host-local", "ranges": [[addresses]], "routes": [{"dst": "0.0.0.0/0"}]},
    }


def runtime(settings: Settings, folder: Path) -> str:
    """What containerd must know beyond its defaults; it may lack the right to lower an OOM score."""
    return "\n".join(
        [
            "version = 2",
            f"[{SANDBOX}]",
            f'sandbox_image = "{IMAGE}"',
            'stream_server_address = "127.0.0.1"',
            'stream_server_port = "0"',
            "disable_apparmor = true",
            "restrict_oom_score_adj = true",
            f"[{SANDBOX}.cni]",
            f'bin_dir = "{settings.programs}"',
            f'conf_dir = "{folder}/cni"',
            "",
        ]
    )


def marks(settings: Settings, number: int) -> list[Mark]:
    """The process that made the node's namespaces, and the first one in them, whose end is the end of all."""
    maker = recorded(Processes(settings.folder).file(f"node{number}"))
    return [*children(maker), maker] if maker and maker.alive() else []


def unplug(settings: Settings, number: int) -> None:
    """What a power cut does to a node; `up` brings it back."""
    end(marks(settings, number))
