"""Processes that outlive the command that started them, and can be found and ended by a later one.

A process is known by its pid, the moment it began and the boot it belongs to, so that a number that was given
anew is never taken for it. It writes that down itself before it becomes the program: whoever dies in between,
no process runs without a record.
"""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")
SHOWN = 15  # lines of a log that are shown when its program fails


class Failed(Exception):
    """A program of the cluster ended or did not become ready; the text holds the end of its log."""


@dataclass(frozen=True, slots=True)
class Mark:
    pid: int
    began: int
    """In clock ticks since the machine booted."""
    boot: str

    @classmethod
    def of(cls, pid: int) -> "Mark":
        """Raises OSError where there is no such process."""
        stat = Path(f"/proc/{pid}/stat").read_text()
        # Fields are counted after the program's name, which may hold anything; the moment is the 22nd.
        return cls(pid, int(stat.rpartition(")")[2].split()[19]), BOOT.read_text().strip())

    def handle(self) -> int | None:
        """A file descriptor that stands for this very process, or None if it is gone."""
        try:
            handle = os.pidfd_open(self.pid)
        except (ProcessLookupError, ValueError):
            return None
        with suppress(OSError):
            if Mark.of(self.pid) == self and not ended(handle):
                return handle
        os.close(handle)
        return None

    def alive(self) -> bool:
        handle = self.handle()
        if handle is not None:
            os.close(handle)
        return handle is not None


def ended(handle: int, seconds: float = 0) -> bool:
    """Whether the process has ended, waiting that long for it; also true of one that nobody has reaped."""
    return bool(select.select([handle], [], [], seconds)[0])


def recorded(file: Path) -> Mark | None:
    try:
        return Mark(**json.loads(file.read_text()))
    except (FileNotFoundError, ValueError, TypeError):  # never begun, or half written
        return None


def record(file: Path, mark: Mark) -> None:
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(mark)))
    fresh.replace(file)


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes of one cluster: their records and logs, in its folder."""

    folder: Path

    def file(self, name: str) -> Path:
        return self.folder / "processes" / name

    def log(self, name: str) -> Path:
        return self.folder / "log" / f"{name}.log"

    def alive(self, name: str) -> bool:
        mark = recorded(self.file(name))
        return mark is not None and mark.alive()

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes] | None:
        """Starts the program in a session of its own; None if it runs already."""
        if self.alive(name):
            return None
        self.file(name).parent.mkdir(parents=True, exist_ok=True)
        self.log(name).parent.mkdir(parents=True, exist_ok=True)
        with self.log(name).open("ab") as log:
            return subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                # This program has one thread, so running Python between fork and exec is safe.
                preexec_fn=lambda: record(self.file(name), Mark.of(os.getpid())),
            )

    def wait(self, name: str, ready: Callable[[], bool], seconds: float) -> None:
        """Until it is ready; raises Failed if its process ends or the time is over before."""
        until = time.monotonic() + seconds
        while not ready():
            if not self.alive(name):
                raise Failed(f"{name} ended:\n{self.tail(name)}")
            if time.monotonic() > until:
                raise Failed(f"{name} was not ready after {seconds:.0f} s:\n{self.tail(name)}")
            time.sleep(0.1)

    def tail(self, name: str) -> str:
        lines = self.log(name).read_text(errors="replace").splitlines()[-SHOWN:]
        return "\n".join(f"  {line}" for line in lines)

    def marks(self, prefix: str = "") -> Sequence[Mark]:
        files = sorted((self.folder / "processes").glob(f"{prefix}*"))
        return [mark for file in files if (mark := recorded(file))]


def children(mark: Mark) -> Sequence[Mark]:
    """Of its first thread, which is all that the programs asked about have."""
    with suppress(OSError):
        pids = Path(f"/proc/{mark.pid}/task/{mark.pid}/children").read_text().split()
        return [Mark.of(int(pid)) for pid in pids]
    return []


def end(marks: Iterable[Mark]) -> None:
    """Kills them and waits until the last is gone: what they kept is thrown away anyway."""
    handles = [handle for mark in marks if (handle := mark.handle()) is not None]
    for handle in handles:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    for handle in handles:
        if not ended(handle, seconds=30):
            raise Failed("a process that was killed is still there after 30 s")
        os.close(handle)
