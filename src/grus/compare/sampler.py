"""The one sampler: a program that travels with a workload, starts it and records it, the same everywhere.

    python3 sampler.py ORDER FOLDER

It is a single file of the standard library, for Linux and Python 3.8 or newer, so that a node needs nothing
else. The workload runs in a fresh copy of the code (a checkpoint of the run before would be a shortcut) and
under this process as its reaper: every process that it starts is found as a descendant, and counts even after
its end. The load beside it, this sampler, and all other processes on the node are counted separately.
`records` defines the format. One thread, no output of its own; ends with 0 whenever it has recorded the
workload's end.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any, BinaryIO, Callable, Iterator, NamedTuple, Sequence  # noqa: UP035 - for Python 3.8

GRACE = 10.0
"""Seconds from SIGTERM to SIGKILL."""
WHOLE = 1 << 30
"""Bytes of which all are hashed; beyond them a file counts with its size and both its ends."""
END = 1 << 16
MOST_REPORTS = 10
"""Reports recorded per period: if there are more, some between the first and the last are left out, …"""
MANY_REPORTS = 10_000
"""… and after so many all but the last: a record of days stays small enough to travel."""
SKIPPED = frozenset({"__pycache__", ".git"})
SIGNALS = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT}
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def text_of(path: str) -> str:
    """A small file of the kernel's; empty where there is none, or not for us."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


# ------------------------------------------------------------------------------------------------- contents


def contents(path: str, shown: str) -> dict[str, Any]:
    """Digest of a file or folder: names, whether they can be run, and contents."""
    digest, files, size, whole = hashlib.sha256(), 0, 0, True
    for name, full in _files(path):
        try:
            mode, length = os.lstat(full).st_mode, os.lstat(full).st_size
            digest.update(f"{name}\0{bool(mode & 0o100)}\0{length}\0".encode(errors="surrogateescape"))
            if stat.S_ISLNK(mode):
                digest.update(os.readlink(full).encode(errors="surrogateescape"))
            else:
                whole = _add(digest, full, length, all_of_it=size + length <= WHOLE) and whole
        except OSError as error:
            digest.update(f"unreadable {error.errno}\0".encode())
            length = 0
        files, size = files + 1, size + length
    found = digest.hexdigest() if files else ""
    return {"path": shown, "digest": found, "files": files, "bytes": size, "whole": whole}


def _files(path: str) -> Iterator[tuple[str, str]]:
    """Name below the path, and path, of each file; always in the same order."""
    if os.path.isfile(path):
        yield os.path.basename(path), path
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(names):
            full = os.path.join(folder, name)
            if os.path.islink(full) or os.path.isfile(full):
                yield os.path.relpath(full, path), full


def _add(digest: Any, path: str, length: int, all_of_it: bool) -> bool:
    with open(path, "rb") as file:
        if all_of_it:
            for piece in iter(lambda: file.read(1 << 20), b""):
                digest.update(piece)
            return True
        digest.update(file.read(END))
        file.seek(max(0, length - END))
        digest.update(file.read(END))
    return length <= 2 * END


# ----------------------------------------------------------------------------------------------------- node


def node(folder: str, gpus: list[dict[str, Any]], driver: str) -> dict[str, Any]:
    """The machine, as this process sees it."""
    cpu = [line.partition(":") for line in text_of("/proc/cpuinfo").splitlines()]
    models = [value.strip() for key, _, value in cpu if key.strip() in ("model name", "cpu", "Model")]
    system = dict(line.partition("=")[::2] for line in text_of("/etc/os-release").splitlines())
    memory = _meminfo()
    return {
        "host": socket.gethostname(),
        "cpu_model": models[0] if models else platform.machine(),
        "cores": os.cpu_count() or 0,
        "allowed": allowed_cores(),
        "memory": memory.get("MemTotal"),
        "memory_allowed": _least_of_groups("memory.max"),
        "kernel": platform.release(),
        "system": system.get("PRETTY_NAME", "").strip('"'),
        "python": platform.python_version(),
        "driver": driver,
        "container": _container(),
        "filesystem": _filesystem(folder),
        "gpus": gpus,
    }


def allowed_cores() -> float:
    quota = _least_of_groups("cpu.max")
    usable = float(len(os.sched_getaffinity(0)))
    return usable if quota is None else min(usable, quota)


def _least_of_groups(name: str) -> float | None:
    """The least limit of this process's control group (version 2) and those above it."""
    own = [line[3:] for line in text_of("/proc/self/cgroup").splitlines() if line.startswith("0::")]
    path, limits = (own[0] if own else "/"), []
    while True:
        words = text_of(f"/sys/fs/cgroup{path.rstrip('/')}/{name}").split()
        if words and words[0] != "max":
            limits.append(float(words[0]) / (float(words[1]) if len(words) > 1 else 1.0))
        if path in ("/", ""):
            return min(limits) if limits else None
        path = os.path.dirname(path)


def _container() -> str:
    signs = [
        ("kubernetes", "KUBERNETES_SERVICE_HOST" in os.environ),
        ("slurm", "SLURM_JOB_ID" in os.environ),
        ("grus", "GRUS_JOB" in os.environ),
        ("docker", os.path.exists("/.dockerenv")),
        ("podman", os.path.exists("/run/.containerenv")),
        ("singularity", "SINGULARITY_NAME" in os.environ or "APPTAINER_NAME" in os.environ),
    ]
    return "+".join(name for name, there in signs if there)


def _filesystem(folder: str) -> str:
    """The type of the file system that holds it."""
    mounts = [line.split() for line in text_of("/proc/self/mounts").splitlines()]
    path = os.path.realpath(folder)
    above = [
        (len(m[1]), m[2]) for m in mounts if len(m) > 2 and (path + "/").startswith(m[1].rstrip("/") + "/")
    ]
    return max(above)[1] if above else ""


def _meminfo() -> dict[str, float]:
    lines = (line.split() for line in text_of("/proc/meminfo").splitlines())
    return {words[0].rstrip(":"): float(words[1]) * 1024 for words in lines if len(words) > 1}


def node_use() -> tuple[float | None, float | None]:
    """Seconds of all cores together since the node was started, and bytes that programs cannot have now."""
    ticks = [int(word) for word in text_of("/proc/stat").partition("\n")[0].split()[1:9]]
    memory = _meminfo()
    # All but waiting (fields 4 and 5); what other guests of a host have stolen was not used here.
    cpu = (sum(ticks[:3]) + sum(ticks[5:7])) / TICK if len(ticks) >= 7 else None
    free = memory.get("MemAvailable")
    return cpu, memory["MemTotal"] - free if free is not None else None


class Joules:
    """Energy used by the processors, if they count it and permit us to read it."""

    def __init__(self, root: str = "/sys/class/powercap") -> None:
        names = sorted(os.listdir(root)) if os.path.isdir(root) else []
        self._zones = [f"{root}/{name}" for name in names if name.count(":") == 1]
        self._before = [self._read(zone) for zone in self._zones]

    def since(self) -> float | None:
        """Joules since it was last asked."""
        now = [self._read(zone) for zone in self._zones]
        before, self._before = self._before, now
        total = 0.0
        for zone, old, new in zip(self._zones, before, now):  # noqa: B905 - strict is newer than 3.8
            if old is None or new is None:
                return None
            turned = number(text_of(f"{zone}/max_energy_range_uj").strip()) if new < old else None
            total += (new - old + (turned or 0.0)) / 1e6
        return total if now else None

    def _read(self, zone: str) -> float | None:
        return number(text_of(f"{zone}/energy_uj").strip())


# ---------------------------------------------------------------------------------------------------- GPUs


def gpus_here() -> tuple[list[dict[str, Any]], str]:
    """Return nvidia-smi's list of GPUs, and the driver's version; nothing if there is none."""
    query = "--query-gpu=index,name,uuid,memory.total,driver_version"
    try:
        done = subprocess.run(
            ["nvidia-smi", query, "--format=csv,noheader,nounits"], stdout=subprocess.PIPE, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return [], ""
    rows = [[cell.strip() for cell in row.split(",")] for row in done.stdout.decode().splitlines()]
    rows = [row for row in rows if len(row) == 5 and row[0].isdigit()]
    found = []
    for row in rows:
        memory = number(row[3])
        size = None if memory is None else memory * 2**20
        found.append({"index": int(row[0]), "name": row[1], "uuid": row[2], "memory": size})
    return found, rows[0][4] if rows else ""


def given(gpus: Sequence[dict[str, Any]], visible: str | None) -> list[int]:
    """Indices of those that a process with this CUDA_VISIBLE_DEVICES can use.

    A container lists only its own anyway. Names that nvidia-smi does not list (parts of a GPU) are of one of
    those that it lists.
    """
    everything = [gpu["index"] for gpu in gpus]
    if visible is None:
        return everything
    names = [name.strip() for name in visible.split(",") if name.strip()]
    found = [
        g["index"] for name in names for g in gpus if name == str(g["index"]) or g["uuid"].startswith(name)
    ]
    return found if found or not names else everything


def number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


class GpuReadings:
    """nvidia-smi beside us, read for its output since the last read; never waited for."""

    def __init__(self, mine: Sequence[int], period: float) -> None:
        query = "--query-gpu=index,utilization.gpu,memory.used,power.draw"
        every = str(max(200, int(period * 1000)))
        self._mine = frozenset(mine)
        self.process = subprocess.Popen(
            ["nvidia-smi", query, "--format=csv,noheader,nounits", "-lms", every],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=prepare_child,
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self._rest = b""

    def read(self) -> list[dict[str, Any]]:
        """The newest line of every GPU since it was last asked."""
        assert self.process.stdout is not None
        lines = (self._rest + (self.process.stdout.read() or b"")).split(b"\n")
        self._rest = lines.pop()
        newest = {}
        for line in lines:
            cells = [cell.strip() for cell in line.decode().split(",")]
            if len(cells) == 4 and cells[0].isdigit():
                newest[int(cells[0])] = [number(cell) for cell in cells[1:]]
        found = []
        for index, (use, memory, power) in sorted(newest.items()):
            one = {"index": index, "use": None if use is None else use / 100, "power": power}
            one["memory"] = None if memory is None else memory * 2**20
            found.append({**one, "mine": index in self._mine})
        return found


# ------------------------------------------------------------------------------------------------ processes


class ProcessUsage(NamedTuple):
    cpu: float = 0.0
    memory: float = 0.0
    read: float = 0.0
    write: float = 0.0
    processes: int = 0


def descendants(of: int) -> dict[int, list[str]]:
    """Return the descendants of a process: for each id, the fields of its stat after the name."""
    stats: dict[int, list[str]] = {}
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = text_of(f"/proc/{name}/stat").rpartition(")")[2].split()
            if len(fields) > 15:
                stats[int(name)] = fields
                children.setdefault(int(fields[1]), []).append(int(name))
    found, left = {}, list(children.get(of, ()))
    while left:
        pid = left.pop()
        found[pid] = stats[pid]
        left += children.get(pid, ())
    return found


def seconds(fields: Sequence[str]) -> float:
    """CPU of a process and of the ended children that it has waited for."""
    return sum(int(field) for field in fields[11:15]) / TICK


def disk(pid: int | str) -> tuple[float, float]:
    """Bytes that a process, and the ended children that it has waited for, moved from and to file systems."""
    lines = dict(line.partition(": ")[::2] for line in text_of(f"/proc/{pid}/io").splitlines())
    return float(lines.get("read_bytes", 0)), float(lines.get("write_bytes", 0))


def use_of(processes: dict[int, list[str]]) -> ProcessUsage:
    cpu, private, shared, read, write = 0.0, 0.0, 0.0, 0.0, 0.0
    for pid, fields in processes.items():
        words = text_of(f"/proc/{pid}/statm").split()
        moved = disk(pid)
        cpu, read, write = cpu + seconds(fields), read + moved[0], write + moved[1]
        if len(words) > 2:
            private += (int(words[1]) - int(words[2])) * PAGE
            shared = max(shared, int(words[2]) * PAGE)
    return ProcessUsage(cpu, private + shared, read, write, len(processes))


def prepare_child() -> None:
    """Prepare a child: receive signals again, and do not outlive the sampler."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def burn() -> int:
    """A process that does nothing but compute; its id."""
    pid = os.fork()
    if pid:
        return pid
    prepare_child()
    value = 1
    while True:
        value = (value * 1103515245 + 12345) % 2147483648


# ---------------------------------------------------------------------------------------------- the workload


class Reports:
    """The lines that the workload writes to GRUS_REPORT, forwarded to another reader if there is one."""

    def __init__(self, path: str, onward: str) -> None:
        self.path, self._onward = path, onward
        self._seen, self._rest = 0, b""

    def read(self) -> list[dict[str, Any]]:
        try:
            with open(self.path, "rb") as file:
                if os.fstat(file.fileno()).st_size < self._seen:  # it was truncated
                    self._seen, self._rest = 0, b""
                file.seek(self._seen)
                fresh = file.read()
        except OSError:
            return []
        self._seen += len(fresh)
        lines = (self._rest + fresh).split(b"\n")
        self._rest = lines.pop()
        self._pass_on(lines)
        return [said for said in map(_said, lines) if said]

    def _pass_on(self, lines: list[bytes]) -> None:
        if self._onward and lines:
            try:
                with open(self._onward, "ab", buffering=0) as file:
                    file.write(b"\n".join(lines) + b"\n")
            except OSError:
                self._onward = ""  # no reader: the record has them all the same


def _said(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def thinned(lines: list[dict[str, Any]], most: int = MOST_REPORTS) -> list[dict[str, Any]]:
    """Return at most so many lines, the last among them, the first too, and every one that begins a stage."""
    if len(lines) <= most:
        return lines
    kept = {len(lines) - 1 - round(place * (len(lines) - 1) / max(1, most - 1)) for place in range(most)}
    stages = [line.get("stage") for line in lines]
    kept |= {i for i in range(1, len(lines)) if stages[i] != stages[i - 1]}
    return [lines[place] for place in sorted(kept)]


class SampledRun:
    """One run from its order to its end line."""

    def __init__(self, order: dict[str, Any], here: str, folder: str) -> None:
        # From here on it is the sampler's time and not the environment's: copying and hashing is no start-up.
        self.begin, self.at = time.monotonic(), time.time()
        self.order, self.folder = order, os.path.abspath(folder)
        self.work = os.path.join(self.folder, "work")
        os.makedirs(self.folder, exist_ok=True)
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(os.path.join(here, "code"), self.work, symlinks=True)
        self._file = self._opened("record.jsonl")
        self._output = self._opened("output.txt")
        report = os.path.join(self.folder, "report.jsonl")
        if os.path.exists(report):
            os.unlink(report)
        self.reports = Reports(report, os.environ.get("GRUS_REPORT", ""))
        self.load: set[int] = set()
        self.readings: GpuReadings | None = None
        self.ended: dict[int, int] = {}
        self.gone = 0.0
        """Seconds of CPU of ended processes of the workload that we have waited for."""
        self.stage_name, self.stopped, self.timed_out = "", False, False
        self.said = 0
        self.over = 0.0
        """End time of the last command, before its leftovers were cleared away."""

    # ---- writing

    def _opened(self, name: str) -> BinaryIO:
        return open(os.path.join(self.folder, name), "wb", buffering=0)

    def write(self, kind: str, **values: Any) -> None:
        self._file.write(json.dumps({"kind": kind, **values}).encode() + b"\n")

    def now(self) -> float:
        return round(time.monotonic() - self.begin, 4)

    def stage(self, name: str, t: float | None = None) -> None:
        if name != self.stage_name:
            self.stage_name = name
            self.write("stage", t=self.now() if t is None else t, name=name)

    # ---- the whole

    def go(self) -> None:
        gpus, driver = gpus_here()
        mine = given(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))
        order, load = self.order, int(self.order["load"])
        load = max(1, round(allowed_cores())) if load < 0 else load
        data = [contents(os.path.join(self.work, os.path.expanduser(path)), path) for path in order["data"]]
        code = contents(self.work, "code")
        self.write(
            "start",
            version=1,
            at=self.at,
            name=order["name"],
            period=order["period"],
            load=load,
            argv=order["argv"],
            node=node(self.work, gpus, driver),
            code=code,
            data=data,
            given=mine,
        )
        self.until = None if order.get("limit") is None else self.begin + order["limit"]
        self.watch_from(gpus, mine)
        ended_with = 0
        for line in order["setup"]:
            self.stage("setup")
            ended_with = ended_with or self.run(["/bin/sh", "-c", line])
        if not ended_with and (self.stopped or self.timed_out):
            ended_with = 128 + signal.SIGTERM
        if not ended_with:
            self.stage("run")
            self.load = {burn() for _ in range(load)}
            ended_with = self.run(order["argv"])
        self.finish(ended_with)

    def watch_from(self, gpus: list[dict[str, Any]], mine: list[int]) -> None:
        if gpus:
            self.readings = GpuReadings(mine, self.order["period"])
        self.joules = Joules()
        self.own_disk = disk("self")
        self.total = ProcessUsage()
        self.before = (time.monotonic(), ProcessUsage(), 0.0, time.process_time(), node_use()[0])
        self.samples = 0
        self.next = time.monotonic() + self.order["period"]

    def run(self, argv: Sequence[str]) -> int:
        """Start a command, sample until it has ended, end what it left; its exit code."""
        variables = {**os.environ, **self.order["env"], "GRUS_REPORT": self.reports.path}
        try:
            process = subprocess.Popen(
                argv,
                cwd=self.work,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=prepare_child,
            )
        except OSError as error:
            self._output.write(f"{argv[0]}: {error.strerror}\n".encode())
            return 127
        self.follow(lambda: process.pid in self.ended)
        self.over = self.now()
        process.returncode = code = self.ended[process.pid]
        self.sample(last=True)
        self.end_rest()
        return code if code >= 0 else 128 - code

    def follow(self, over: Callable[[], bool]) -> None:
        """Sample at each period until it is over, asking the workload to end if it must."""
        kill_at: float | None = None
        while True:
            self.reap()
            if over():
                return
            now = time.monotonic()
            if now >= self.next:
                self.sample()
                self.next += self.order["period"] * (1 + (now - self.next) // self.order["period"])
            if self.until is not None and now >= self.until and not self.timed_out:
                self.timed_out = True
            if (self.timed_out or self.stopped) and kill_at is None:
                kill_at = now + GRACE
                self.signal_all(signal.SIGTERM)
            if kill_at is not None and now >= kill_at:
                self.signal_all(signal.SIGKILL)
            due = [self.next, *([] if self.until is None or self.timed_out else [self.until])]
            due += [] if kill_at is None else [max(kill_at, now + 0.2)]
            heard = signal.sigtimedwait(SIGNALS, max(0.0, min(due) - time.monotonic()))
            if heard is not None and heard.si_signo != signal.SIGCHLD:
                self.stopped = True

    def end_rest(self) -> None:
        """End the processes that the command left running; they would disturb the next step."""
        if self.of_workload():
            self.signal_all(signal.SIGTERM)
            limit = time.monotonic() + GRACE
            self.follow(lambda: not self.of_workload() or time.monotonic() >= limit)
            self.signal_all(signal.SIGKILL)

    def finish(self, code: int) -> None:
        for pid in self.ours():
            with suppress(OSError):  # it has ended by itself
                os.kill(pid, signal.SIGKILL)
        self.write(
            "end",
            t=self.over,
            code=code,
            timed_out=self.timed_out,
            stopped=self.stopped,
            cpu_seconds=round(self.total.cpu, 3),
            own_cpu_seconds=round(time.process_time(), 3),
        )
        shutil.rmtree(self.work, ignore_errors=True)

    # ---- processes

    def ours(self) -> set[int]:
        """Our own children: not the workload's."""
        return self.load | ({self.readings.process.pid} if self.readings else set())

    def of_workload(self, tree: dict[int, list[str]] | None = None) -> dict[int, list[str]]:
        ours = self.ours()
        tree = descendants(os.getpid()) if tree is None else tree
        # Processes that our own have started are not the workload's either.
        return {pid: fields for pid, fields in tree.items() if pid not in ours and int(fields[1]) not in ours}

    def reap(self) -> None:
        """Take note of the children that have ended, adopted ones too."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self.ended[pid] = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            if pid not in self.ours():
                self.gone += used.ru_utime + used.ru_stime

    def signal_all(self, number: int) -> None:
        for pid in self.of_workload():
            with suppress(OSError):  # it has ended meanwhile
                os.kill(pid, number)

    # ---- samples

    def sample(self, last: bool = False) -> None:
        """Write what was used since the sample before; the last one only if it covers time enough."""
        now, own = time.monotonic(), time.process_time()
        tree = descendants(os.getpid())
        used = use_of(self.of_workload(tree))
        self.count(used)
        then, before, load_then, own_then, cpu_then = self.before
        span = now - then
        if not last or span > self.order["period"] / 4 or not self.samples:
            load = sum(seconds(tree[pid]) for pid in self.load if pid in tree)
            cpu, memory = node_use()
            values = {
                "cpu": (self.total.cpu - before.cpu) / span,
                "memory": used.memory if used.processes else None,
                "read": (self.total.read - before.read) / span,
                "write": (self.total.write - before.write) / span,
                "load_cpu": max(0.0, load - load_then) / span,
                "own_cpu": (own - own_then) / span,
                "node_cpu": None if cpu is None or cpu_then is None else (cpu - cpu_then) / span,
                "node_memory": memory,
                "host_energy": self.joules.since(),
            }
            shown = {name: round(value, 4) for name, value in values.items() if value is not None}
            gpus = self.readings.read() if self.readings else []
            # Its rates cover the time until `now`, not until the readings were complete.
            self.write("sample", t=round(now - self.begin, 4), **shown, processes=used.processes, gpus=gpus)
            self.before, self.samples = (now, self.total, load, own, cpu), self.samples + 1
        self.tell()

    def count(self, used: ProcessUsage) -> None:
        """All that the workload has used so far, its ended processes included."""
        read, write = disk("self")
        total = self.total
        # One that has ended but was not waited for is missing for a moment: the totals never go back.
        # The traffic of ended children is on our own account once we have waited for them.
        self.total = used._replace(
            cpu=max(total.cpu, used.cpu + self.gone),
            read=max(total.read, used.read + read - self.own_disk[0]),
            write=max(total.write, used.write + write - self.own_disk[1]),
        )

    def tell(self) -> None:
        """Record the workload's reports since the last call, with its own times."""
        for said in thinned(self.reports.read(), MOST_REPORTS if self.said < MANY_REPORTS else 1):
            self.said += 1
            at = said.get("at")
            t = round(at - self.at, 4) if isinstance(at, (int, float)) else self.now()
            words = {name: word[:64] for name, word in said.items() if isinstance(word, str)}
            if words.get("stage"):
                self.stage(words["stage"], t)
            figures = said.get("figures") if isinstance(said.get("figures"), dict) else {}
            self.write("report", t=t, figures=figures, words=words)


def main(words: Sequence[str]) -> int:
    if len(words) != 2:
        sys.stderr.write("usage: python3 sampler.py ORDER FOLDER\n")
        return 2
    with open(words[0], encoding="utf-8") as file:
        order = json.load(file)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    SampledRun(order, os.path.dirname(os.path.abspath(__file__)), words[1]).go()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
