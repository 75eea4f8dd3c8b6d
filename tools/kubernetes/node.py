"""One real node, seen from inside: `python -m tools.kubernetes.node CLUSTER NUMBER`, started by nodes.py.

This is the first process of namespaces of the node's own, for processes and mounts: when it dies, the kernel
ends all that runs on the node, containers included, and its mounts are gone. It gives the node a /var and a
/run of its own, since kubelet and containerd keep things in places there that two nodes would fight over, and
then runs containerd, kubelet and the pretend GPUs, starting them anew when they end, as an init system would.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.kubernetes import cgroups
from tools.kubernetes.settings import Settings, base, load
from tools.kubernetes.versions import cgroup_version, release_of, runtime

IMAGE = "localhost/grus:1"
RUNTIME = "/run/containerd/containerd.sock"
AGAIN = 1.0
"""Seconds until a program that ended is started again."""


def mount_own(folder: Path) -> None:
    for name in ("var", "run"):
        subprocess.run(["mount", "--bind", folder / name, f"/{name}"], check=True)


def containerd(settings: Settings, number: int) -> Sequence[str]:
    return [f"{settings.programs}/containerd", f"--config={settings.folder}/node{number}/containerd.toml"]


def kubelet(settings: Settings, number: int) -> Sequence[str]:
    folder, address = settings.folder / f"node{number}", settings.node_address(number)
    command = [f"{settings.programs}/kubelet", f"--kubeconfig={settings.kubeconfig}"]
    command += [f"--hostname-override=node{number}", f"--node-ip={address}", f"--address={address}"]
    command += [
        "--healthz-port=0",
        "--read-only-port=0",
        "--anonymous-auth=true",
        "--authorization-mode=AlwaysAllow",
    ]
    release = release_of(Path(command[0]))
    command += [*runtime(release, RUNTIME), *cgroup_version(release)]
    command += ["--cgroup-driver=cgroupfs", f"--cgroup-root=/{cgroups.name(settings.name, number)}"]
    command += ["--runtime-cgroups=", "--fail-swap-on=false", "--make-iptables-util-chains=false"]
    command += [f"--resolv-conf={folder}/resolv.conf", "--node-status-update-frequency=2s"]
    # A disk that is nearly full is no reason to throw test pods off; too little memory is.
    command += ["--eviction-hard=memory.available<50Mi", "--image-gc-high-threshold=100"]
    return [*command, *settings.more("kubelet")]


def pretend_gpus(settings: Settings, number: int) -> Sequence[str]:
    folder = settings.folder / f"node{number}"
    return [sys.executable, "-m", "tools.kubernetes.device_plugin", str(folder), settings.resource]


def import_images(settings: Settings) -> None:
    """Waits for containerd, however long: whoever waits for the node sees to the time."""
    ctr = [f"{settings.programs}/ctr", "--address", RUNTIME, "--namespace", "k8s.io"]
    while subprocess.run([*ctr, "version"], capture_output=True, check=False).returncode != 0:
        time.sleep(0.1)
    for archive in (f"{settings.folder}/image.tar", *settings.images):
        subprocess.run([*ctr, "images", "import", archive], check=True)


def start(name: str, command: Sequence[str], logs: Path) -> int:
    with (logs / f"{name}.log").open("ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log).pid


def keep(commands: Mapping[str, Sequence[str]], running: dict[int, str], logs: Path) -> None:
    """For ever: reaps what ends here, orphans of containers too, and starts anew what is ours."""
    while True:
        pid, status = os.wait()
        name = running.pop(pid, None)
        if name is not None:
            print(f"{name} ended with {os.waitstatus_to_exitcode(status)}; it is started again", flush=True)
            time.sleep(AGAIN)
            running[start(name, commands[name], logs)] = name


def main() -> None:
    settings, number = load(base() / sys.argv[1]), int(sys.argv[2])
    assert settings is not None
    logs = settings.folder / "log"
    mount_own(settings.folder / f"node{number}")
    makers = {"containerd": containerd, "kubelet": kubelet, "pretend-gpus": pretend_gpus}
    commands = {f"node{number}-{name}": make(settings, number) for name, make in makers.items()}
    runtime, *others = commands
    running = {start(runtime, commands[runtime], logs): runtime}
    import_images(settings)
    running |= {start(name, commands[name], logs): name for name in others}
    keep(commands, running, logs)


if __name__ == "__main__":
    main()
