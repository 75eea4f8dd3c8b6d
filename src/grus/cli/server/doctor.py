"""Checks of `grus doctor`: one small function per check, each with the fix. They change nothing.

A check returns its findings; it never raises for a condition that it was written to detect.
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
from grus.sdk.state_paths import GrusPaths, places, running

OK, WARN, FAIL = "ok", "warn", "fail"
SAFE_SQLITE = (3, 51, 3)
"""Older ones can corrupt their log when two connections write together; Grus has one writer."""
REMOTE = ("nfs", "cifs", "smb", "9p", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "fuse.sshfs", "afs")
LITTLE_SPACE, NO_SPACE = 2_000_000_000, 200_000_000
FEW_FILES = 1024
PR_GET_CHILD_SUBREAPER = 37
CLOCK_NOT_SYNCHRONISED = 5
"""The value that adjtimex(2) returns while the clock is not synchronized."""
PLAUSIBLE = 1_735_689_600.0
"""2025-01-01: a clock before this is surely wrong."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    check: str
    state: str
    text: str
    fix: str = ""

    def as_json(self) -> dict[str, str]:
        return asdict(self)


def examine() -> list[DoctorFinding]:
    """All checks, in the order in which a newcomer would meet them."""
    from grus.cli.server.service_checks import check_backups, check_certificate, check_service

    at = places()
    checks: list[Callable[[GrusPaths], DoctorFinding]] = [
        _python,
        _sqlite,
        _state_folder,
        _passage,
        _filesystem,
        _space,
        _config,
        _processes,
        _gpus,
        _mps,
        _isolation,
        _cpu_limits,
        _clock,
        _files,
        _port,
        check_certificate,
        _server,
        check_service,
        check_backups,
        _notifications,
    ]
    return [check(at) for check in checks]


def _python(at: GrusPaths) -> DoctorFinding:  # noqa: ARG001 - one shape for all checks
    have = ".".join(str(part) for part in sys.version_info[:3])
    if not sys.platform.startswith("linux"):
        return DoctorFinding(
            "python", WARN, f"{have} on {sys.platform}: client only", "run the server on Linux"
        )
    return DoctorFinding("python", OK, have)


def _sqlite(at: GrusPaths) -> DoctorFinding:  # noqa: ARG001 - the shape of a check
    asked = subprocess.run(
        [sys.executable, "-c", "import sqlite3; print(sqlite3.sqlite_version)"],
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode:
        return DoctorFinding(
            "sqlite", FAIL, "this Python has no sqlite3", "install a Python built with SQLite"
        )
    have = asked.stdout.strip()
    if tuple(int(part) for part in have.split(".")) < SAFE_SQLITE:
        safe = ".".join(map(str, SAFE_SQLITE))
        return DoctorFinding(
            "sqlite", OK, f"{have}; before {safe} only one connection may write: Grus has only one"
        )
    return DoctorFinding("sqlite", OK, have)


def _state_folder(at: GrusPaths) -> DoctorFinding:
    existing = _nearest(at.state)
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        fix = "give yourself the right to write there, or set GRUS_HOME to another folder"
        return DoctorFinding("state folder", FAIL, f"{at.state}: {error.strerror}", fix)
    return DoctorFinding("state folder", OK, f"{at.state} is writable")


def _passage(at: GrusPaths) -> DoctorFinding:
    from grus.store.durable_files import closed_folder

    if os.geteuid() != 0:
        return DoctorFinding("passage", OK, "not needed: jobs run as the account of the server")
    if (closed := closed_folder(at.state)) is None:
        return DoctorFinding("passage", OK, "jobs of other accounts can reach their control files")
    fix = f"chmod o+x {closed}, or set GRUS_HOME to a folder that others can pass"
    return DoctorFinding("passage", WARN, f"jobs of other accounts cannot pass {closed}", fix)


def _filesystem(at: GrusPaths) -> DoctorFinding:
    kind = _filesystem_of(_nearest(at.state))
    if any(kind.startswith(remote) for remote in REMOTE):
        return DoctorFinding(
            "filesystem", FAIL, f"{kind}: SQLite's locks need a local one", "set GRUS_HOME to a local disk"
        )
    if kind in ("tmpfs", "ramfs"):
        return DoctorFinding(
            "filesystem", WARN, f"{kind}: jobs are forgotten at a reboot", "set GRUS_HOME to a real disk"
        )
    return DoctorFinding("filesystem", OK, f"{kind or 'unknown'}, local")


def _space(at: GrusPaths) -> DoctorFinding:
    free = shutil.disk_usage(_nearest(at.state)).free
    text = f"{free / 1e9:.1f} GB free for state and logs"
    fix = "free some space, or set GRUS_HOME to a larger disk"
    if free < NO_SPACE:
        return DoctorFinding("disk space", FAIL, text, fix)
    return (
        DoctorFinding("disk space", WARN, text, fix)
        if free < LITTLE_SPACE
        else DoctorFinding("disk space", OK, text)
    )


def _processes(at: GrusPaths) -> DoctorFinding:  # noqa: ARG001 - the shape of a check
    fix = "run the server on Linux 5.3 or newer, outside a sandbox that hides these calls"
    try:
        os.close(os.pidfd_open(os.getpid()))
        answer = ctypes.c_int()
        if ctypes.CDLL(None, use_errno=True).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl refuses child subreapers")
    except (AttributeError, OSError) as error:
        return DoctorFinding("processes", FAIL, f"pidfd and child subreaper: {error}", fix)
    return DoctorFinding(
        "processes", OK, "pidfd and child subreaper work: a stopped job leaves nothing behind"
    )


def _nvidia_gpus() -> int | None:
    """Return the number of GPUs that the driver shows; None if there is no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        return int(pynvml.nvmlDeviceGetCount())
    finally:
        pynvml.nvmlShutdown()


def _gpus(at: GrusPaths) -> DoctorFinding:
    from grus.server.runtime.device_inventory import REAL, remembered

    count = _nvidia_gpus()
    if not count and (pool := remembered(at.state)) not in ("", REAL):
        return DoctorFinding("gpus", OK, f"simulated, {pool}, as at the last start; no NVIDIA driver here")
    if not count:
        fix = "install NVIDIA's driver, or simulate GPUs: grus up --virtual 2x4x16GB"
        return DoctorFinding("gpus", WARN, "no NVIDIA driver here: `grus up` needs --virtual", fix)
    return DoctorFinding("gpus", OK, f"{count} by NVML")


def _mps(at: GrusPaths) -> DoctorFinding:  # noqa: ARG001 - the shape of a check
    if not _nvidia_gpus():
        return DoctorFinding(
            "mps", OK, "not needed: slices of virtual GPUs are enforced on the processes' memory"
        )
    if shutil.which("nvidia-cuda-mps-control"):
        return DoctorFinding("mps", OK, "present: slices get memory and thread limits")
    fix = "install nvidia-cuda-mps-control for hard limits"
    return DoctorFinding("mps", WARN, "absent: slices are kept by an allocator cap and a watchdog", fix)


def _isolation(at: GrusPaths) -> DoctorFinding:
    from grus.engines.local import sandbox
    from grus.engines.local.engine import isolation_words
    from grus.server.config import load

    try:
        boxed = load(at).isolation == "bubblewrap"
    except GrusError:
        boxed = False  # what is wrong with config.toml is told above
    if boxed and (why := sandbox.trouble()):
        return DoctorFinding(
            "isolation", FAIL, f"no boxes: {why}", 'or set isolation = "processes" in config.toml'
        )
    told = isolation_words(boxed=boxed)
    if boxed or os.geteuid() == 0:
        return DoctorFinding("isolation", OK, told)
    fix = 'before a second person uses it: isolation = "bubblewrap" in config.toml, or a server of root\'s'
    return DoctorFinding("isolation", WARN, told, fix)


def _cpu_limits(at: GrusPaths) -> DoctorFinding:
    from grus.engines.local.cgroup_detection import find_groups
    from grus.server.config import load

    try:
        if not load(at).cpu_limits:
            return DoctorFinding("cpu limits", OK, "off: cpu_limits = false in config.toml")
    except GrusError:
        pass  # errors of config.toml are reported above
    found = find_groups()
    if found.version:
        return DoctorFinding("cpu limits", OK, found.words())
    return DoctorFinding("cpu limits", WARN, found.words(), "or set cpu_limits = false in config.toml")


def _clock(at: GrusPaths) -> DoctorFinding:  # noqa: ARG001 - the shape of a check
    if time.time() < PLAUSIBLE:
        return DoctorFinding("clock", FAIL, time.strftime("%Y-%m-%d", time.gmtime()), "set the clock")
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512))
    except (AttributeError, OSError):
        return DoctorFinding("clock", OK, "plausible")
    if state == CLOCK_NOT_SYNCHRONISED:
        return DoctorFinding(
            "clock", WARN, "plausible, but nothing keeps it right", "run chrony or systemd-timesyncd"
        )
    return DoctorFinding("clock", OK, "synchronised")


def _files(at: GrusPaths) -> DoctorFinding:  # noqa: ARG001 - the shape of a check
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < FEW_FILES:
        return DoctorFinding(
            "open files", WARN, f"at most {soft} (a worker needs four)", f"ulimit -n {min(hard, 65536)}"
        )
    return DoctorFinding("open files", OK, f"at most {soft}")


def _port(at: GrusPaths) -> DoctorFinding:
    from grus.cli.server.background_process import alive

    server = running(at)
    if server is not None and alive(server.pid):
        return DoctorFinding("port", OK, f"in use by our server, {server.address}")
    port = _configured_port(at)
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            fix = "choose another: `grus up --port 7601`"
            return DoctorFinding("port", FAIL, f"{port} is taken: {error.strerror}", fix)
    return DoctorFinding("port", OK, f"{port} is free")


def _config(at: GrusPaths) -> DoctorFinding:
    from grus.cli.server.config_checks import unknown_in_config
    from grus.server.config import load

    if not at.config_file.exists():
        return DoctorFinding("configuration", OK, f"none ({at.config_file}): the defaults hold")
    try:
        load(at)
    except GrusError as error:
        return DoctorFinding("configuration", FAIL, str(error), f"edit {at.config_file}")
    if unknown := unknown_in_config(at):
        return DoctorFinding(
            "configuration", WARN, unknown, f"edit {at.config_file}, then restart the server"
        )
    return DoctorFinding("configuration", OK, str(at.config_file))


def _configured_port(at: GrusPaths) -> int:
    from grus.server.config import DEFAULT_PORT, load

    try:
        return load(at).port
    except GrusError:
        return DEFAULT_PORT  # the check of the configuration reports the error


def _server(at: GrusPaths) -> DoctorFinding:
    import grus
    from grus.cli import connection
    from grus.cli.server.service_checks import runs_as_service, systemctl

    service = runs_as_service(at)
    try:
        with connection.connected() as client:
            status = client.status()
    except Unreachable as error:
        fix = systemctl("start") if service else "grus up"
        return DoctorFinding("server", WARN, str(error).split(". ")[0], fix)
    except GrusError as error:
        return DoctorFinding("server", FAIL, str(error), "check GRUS_SERVER and the token")
    if status.version != grus.__version__:
        fix = f"{systemctl('restart') if service else 'grus down && grus up'} (jobs continue)"
        return DoctorFinding(
            "server", WARN, f"version {status.version}, but this client is {grus.__version__}", fix
        )
    return DoctorFinding("server", OK, f"version {status.version} answers")


def _notifications(at: GrusPaths) -> DoctorFinding:
    from grus.cli import connection
    from grus.server.config import load
    from grus.server.runtime.notification_config import channels

    try:
        settings = load(at)
    except GrusError:
        return DoctorFinding("notifications", OK, "not checked: see configuration")
    try:
        made = channels(settings.notifications, at.config)
    except GrusError as error:
        return DoctorFinding("notifications", FAIL, str(error), f"edit {at.config_file}")
    for sender, _ in made:
        sender.close()
    if not made:
        return DoctorFinding("notifications", OK, "no receiver is configured")
    names = ", ".join(sender.name for sender, _ in made)
    try:
        with connection.connected() as client:
            found = client.notifications()
    except GrusError:
        return DoctorFinding("notifications", OK, f"{names} configured; their state is not known here")
    failing = [one for one in found if one.failures]
    if not failing:
        return DoctorFinding("notifications", OK, f"{names}: no failure")
    text = "; ".join(f"{one.name} has failed {one.failures} times: {one.error}" for one in failing)
    return DoctorFinding(
        "notifications", WARN, text, f"mend it, then `grus notifications test {failing[0].name}`"
    )


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
