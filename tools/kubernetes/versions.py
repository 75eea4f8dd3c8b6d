"""Flags of the programs of a test cluster that depend on the Kubernetes release. Standard library only."""

import re
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

NUMBERS = re.compile(r"(\d+)\.(\d+)")
Release = tuple[int, int]


@cache
def release_of(program: Path) -> Release:
    """Release of a program that is there: (1, 20)."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return parsed(said)


def parsed(said: str) -> Release:
    """Numbers of `Kubernetes v1.36.4`, `1.36+` or `v1.30.4+k3s1`."""
    found = NUMBERS.search(said)
    if found is None:
        raise ValueError(f'"{said.strip()}" names no release of Kubernetes')
    return int(found[1]), int(found[2])


def without_ports(release: Release) -> Sequence[str]:
    """Controllers and scheduler serve nothing; before 1.24 they had a second, open port."""
    return ["--secure-port=0", *(["--port=0"] if release < (1, 24) else [])]


def runtime(release: Release, socket: str) -> Sequence[str]:
    """Runtime of a kubelet: 1.24 removed dockershim, 1.27 the flag that chose between the two."""
    choice = ["--container-runtime=remote"] if release < (1, 27) else []
    return [*choice, f"--container-runtime-endpoint=unix://{socket}"]


def cgroup_version(release: Release) -> Sequence[str]:
    """Since 1.35 a kubelet refuses control groups of version 1 unless it may use them."""
    return ["--fail-cgroupv1=false"] if release >= (1, 35) else []


def pod_security(release: Release) -> Sequence[str]:
    """Admission plugins of the API server for restricted pods; 1.25 removed PodSecurityPolicy."""
    return ["--enable-admission-plugins=PodSecurityPolicy"] if release < (1, 25) else []
