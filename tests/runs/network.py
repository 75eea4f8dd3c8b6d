"""The network of one run of the tests: for root, a namespace that has loopback and nothing else.

No request of a test, or of a program that it starts, can leave this machine: there is no route out. Bridges
of test clusters live in this namespace, and the kernel removes it with its last process.
"""

import ctypes
import os
import shutil
import socket
import subprocess
from pathlib import Path

CLONE_NEWNET = 0x40000000
ADDRESS = "203.0.113.1/32"
"""An address for documentation (RFC 5737), on the loopback device: with 127.0.0.1 alone, getaddrinfo finds no
name for programs that ask for the configured address families only, such as those of Slurm."""


def enter_own(name: str) -> int:
    """Move this process, which must have one thread, into a namespace of that name; its number.

    0 where the machine's network is used: without root, and for an existing cluster, which may be elsewhere.
    """
    if os.geteuid() != 0 or os.environ.get("GRUS_KUBECONFIG") or not shutil.which("ip"):
        return 0
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:  # a container without the right to it
        return 0
    subprocess.run(["ip", "link", "set", "lo", "up", "alias", name], check=True)
    subprocess.run(["ip", "address", "add", ADDRESS, "dev", "lo"], check=True)
    return number("self")


def number(process: int | str) -> int:
    """The number of the namespace of a process; 0 of one that has ended or is another user's.

    The kernel reuses numbers: compare them only with those of living namespaces.
    """
    try:
        return Path(f"/proc/{process}/ns/net").stat().st_ino
    except OSError:
        return 0


def name(process: int) -> str:
    """The name of the namespace of a process, as set by `enter_own`; "" if it has none."""
    command = ["nsenter", f"--net=/proc/{process}/ns/net", "ip", "-o", "link", "show", "lo"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""
    return shown.rpartition("alias ")[2].strip() if "alias " in shown else ""


def links() -> tuple[str, ...]:
    """The network devices of this process. /sys/class/net shows those of the process that mounted /sys."""
    return tuple(name for _, name in socket.if_nameindex())
