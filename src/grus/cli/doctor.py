"""What `grus doctor` looks at: one small function a check, each with the fix. Changes nothing.

A check returns its findings; it never raises for what it was made to notice.
"""

import ctypes
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from grus.model.errors import GrusError, Unreachable
from grus.sdk.places import Places, places, running

OK, WARN, FAIL = "ok", "warn", "fail"
SAFE_SQLITE = (3, 51, 3)
"""Older ones can corrupt their log when two connections write together; Grus has one writer."""
REMOTE = ("nfs", "cifs", "smb", "9p", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "fuse.sshfs", "afs")
LITTLE_SPACE, NO_SPACE = 2_000_000_000, 200_000_000
FEW_FILES = 1024
PR_GET_CHILD_SUBREAPER = 37
CLOCK_NOT_SYNCHRONISED = 5
"""What adjtimex(2) returns while nothing keeps the clock right."""
PLAUSIBLE = 1_735_689_600.0
"""2025-01-01: a clock before this is surely wrong."""


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    state: str
    text: str
    fix: str = ""

    def as_json(self) -> dict[str, str]:
        return asdict(self)


def examine() -> list[Finding]:
    """All checks, in the order in which a newcomer would meet them."""
    at = places()
    checks: list[Callable[[Places], Finding]] = [
        _python,
        _sqlite,
        _state_folder,
        _filesystem,
        _space,
        _config,
        _processes,
        _gpus,
        _mps,
        _isolation,
        _clock,
        _files,
        _port,
        _server,
    ]
    return [check(at) for check in checks]


def _python(at: Places) -> Finding:  # noqa: ARG001 - one shape for all checks
    have = ".".join(str(part) for part in sys.version_info[:3])
    if not sys.platform.startswith("linux"):
        return Finding("python", WARN, f"{have} on {sys.platform}: client only", "run the server on Linux")
    return Finding("python", OK, have)


def _sqlite(at: Places) -> Finding:  # noqa: ARG001 - the shape of a check
    asked = subprocess.run(
        [sys.executable, "-c", "import sqlite3; print(sqlite3.sqlite_version)"],
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode:
        return Finding("sqlite", FAIL, "this Python has no sqlite3", "install a Python built with SQLite")
    have = asked.stdout.strip()
    if tuple(int(part) for part in have.split(".")) < SAFE_SQLITE:
        safe = ".".join(map(str, SAFE_SQLITE))
        return Finding(
            "sqlite", OK, f"{have}; before {safe} only one connection may write: Grus has only one"
        )
    return Finding("sqlite", OK, have)


def _state_folder(at: Places) -> Finding:
    existing = _nearest(at.state)
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        fix = "give yourself the right to write there, or set GRUS_HOME to another folder"
        return Finding("state folder", FAIL, f"{at.state}: {error.strerror}", fix)
    return Finding("state folder", OK, f"{at.state} is writable")


def _filesystem(at: Places) -> Finding:
    kind = _filesystem_of(_nearest(at.state))
    if any(kind.startswith(remote) for remote in REMOTE):
        return Finding(
            "filesystem", FAIL, f"{kind}: SQLite's locks need a local one", "set GRUS_HOME to a local disk"
        )
    if kind in ("tmpfs", "ramfs"):
        return Finding(
            "filesystem", WARN, f"{kind}: jobs are forgotten at a reboot", "set GRUS_HOME to a real disk"
        )
    return Finding("filesystem", OK, f"{kind or 'unknown'}, local")


def _space(at: Places) -> Finding:
    free = shutil.disk_usage(_nearest(at.state)).free
    text = f"{free / 1e9:.1f} GB free for state and logs"
    fix = "free some space, or set GRUS_HOME to a larger disk"
    if free < NO_SPACE:
        return Finding("disk space", FAIL, text, fix)
    return Finding("disk space", WARN, text, fix) if free < LITTLE_SPACE else Finding("disk space", OK, text)


def _processes(at: Places) -> Finding:  # noqa: ARG001 - the shape of a check
    fix = "run the server on Linux 5.3 or newer, outside a sandbox that hides these calls"
    try:
        os.close(os.pidfd_open(os.getpid()))
        answer = ctypes.c_int()
        if ctypes.CDLL(None, use_errno=True).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl refuses child subreapers")
    except (AttributeError, OSError) as error:
        return Finding("processes", FAIL, f"pidfd and child subreaper: {error}", fix)
    return Finding("processes", OK, "pidfd and child subreaper work: a stopped job leaves nothing behind")


def _nvidia_gpus() -> int | None:
    """How many GPUs the driver shows; None where there is no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        return int(pynvml.nvmlDeviceGetCount())
    finally:
        pynvml.nvmlShutdown()


def _gpus(at: Places) -> Finding:  # noqa: ARG001 - the shape of a check
    count = _nvidia_gpus()
    if not count:
        fix = "fine for trying things out; for real GPUs install NVIDIA's driver"
        return Finding(
            "gpus", WARN, "no NVIDIA driver here: `grus up` pretends a pool (--virtual 2x4x16GB)", fix
        )
    return Finding("gpus", OK, f"{count} by NVML")


def _mps(at: Places) -> Finding:  # noqa: ARG001 - the shape of a check
    if not _nvidia_gpus():
        return Finding("mps", OK, "not needed: slices of virtual GPUs are enforced on the processes' memory")
    if shutil.which("nvidia-cuda-mps-control"):
        return Finding("mps", OK, "present: slices get memory and thread limits")
    fix = "install nvidia-cuda-mps-control for hard limits"
    return Finding("mps", WARN, "absent: slices are kept by an allocator cap and a watchdog", fix)


def _isolation(at: Places) -> Finding:
    from grus.engines.local import boxes
    from grus.engines.local.engine import isolation_words
    from grus.server.config import load

    try:
        boxed = load(at).isolation == "bubblewrap"
    except GrusError:
        boxed = False  # what is wrong with config.toml is told above
    if boxed and (why := boxes.trouble()):
        return Finding("isolation", FAIL, f"no boxes: {why}", 'or set isolation = "processes" in config.toml')
    told = isolation_words(boxed=boxed)
    if boxed or os.geteuid() == 0:
        return Finding("isolation", OK, told)
    fix = 'before a second person uses it: isolation = "bubblewrap" in config.toml, or a server of root\'s'
    return Finding("isolation", WARN, told, fix)


def _clock(at: Places) -> Finding:  # noqa: ARG001 - the shape of a check
    if time.time() < PLAUSIBLE:
        return Finding("clock", FAIL, time.strftime("%Y-%m-%d", time.gmtime()), "set the clock")
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512))
    except (AttributeError, OSError):
        return Finding("clock", OK, "plausible")
    if state == CLOCK_NOT_SYNCHRONISED:
        return Finding(
            "clock", WARN, "plausible, but nothing keeps it right", "run chrony or systemd-timesyncd"
        )
    return Finding("clock", OK, "synchronised")


def _files(at: Places) -> Finding:  # noqa: ARG001 - the shape of a check
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < FEW_FILES:
        return Finding(
            "open files", WARN, f"at most {soft} (a worker needs four)", f"ulimit -n {min(hard, 65536)}"
        )
    return Finding("open files", OK, f"at most {soft}")


def _port(at: Places) -> Finding:
    from grus.cli.background import alive

    server = running(at)
    if server is not None and alive(server.pid):
        return Finding("port", OK, f"in use by our server, {server.address}")
    port = _configured_port(at)
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            fix = "choose another: `grus up --port 7601`"
            return Finding("port", FAIL, f"{port} is taken: {error.strerror}", fix)
    return Finding("port", OK, f"{port} is free")


def _config(at: Places) -> Finding:
    from grus.server.config import load

    if not at.config_file.exists():
        return Finding("configuration", OK, f"none ({at.config_file}): the defaults hold")
    try:
        load(at)
    except GrusError as error:
        return Finding("configuration", FAIL, str(error), f"edit {at.config_file}")
    return Finding("configuration", OK, str(at.config_file))


def _configured_port(at: Places) -> int:
    from grus.server.config import DEFAULT_PORT, load

    try:
        return load(at).port
    except GrusError:
        return DEFAULT_PORT  # what is wrong is told by the check of the configuration


def _server(at: Places) -> Finding:  # noqa: ARG001 - the shape of a check
    import grus
    from grus.cli import access

    try:
        status = access.connect().status()
    except Unreachable as error:
        return Finding("server", WARN, str(error).split(". ")[0], "grus up")
    except GrusError as error:
        return Finding("server", FAIL, str(error), "check GRUS_SERVER and the token")
    if status.version != grus.__version__:
        fix = "grus down && grus up (jobs go on)"
        return Finding(
            "server", WARN, f"version {status.version}, but this client is {grus.__version__}", fix
        )
    return Finding("server", OK, f"version {status.version} answers")


def _nearest(path: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _filesystem_of(path: Path) -> str:
    """Type of the filesystem that holds the path, by the kernel's list of mounts; empty if unknown."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    target = path.resolve()
    for line in lines:
        left, _, right = line.partition(" - ")
        mount = left.split()[4].replace("\\040", " ")
        if target.is_relative_to(mount) and len(mount) >= len(best):
            best, kind = mount, right.split()[0]
    return kind
