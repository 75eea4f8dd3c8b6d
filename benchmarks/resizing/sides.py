"""What a runtime must offer to be measured; and the processes of the rivals, marked by their logs' folder."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from benchmarks.resizing.steps import FOLDER

MOST = 4
ROOT = Path(__file__).resolve().parents[2]


class Side(Protocol):
    """One training on one runtime; it begins with one worker, and is gone when the context ends."""

    @property
    def logs(self) -> Path:
        """The folder of the logs of steps."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def scale(self, workers: int) -> None:
        """Ask for that many workers, in the way of this runtime; returns at once."""
        ...


def environment(logs: Path, **more: str) -> dict[str, str]:
    """For a worker: one thread, loopback only, this repository importable."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    fixed = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": path, FOLDER: str(logs)}
    return {**os.environ, **fixed, **more}


def agent(options: Sequence[str], module: str, env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start an agent of torchrun, its output appended to `log`."""
    command = [sys.executable, "-m", "torch.distributed.run", *options, "-m", module]
    with log.open("ab") as out:
        return subprocess.Popen(
            command, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )


def end(agents: Sequence[subprocess.Popen[bytes]], logs: Path) -> None:
    """End these agents and every process that is left of this run, by pid."""
    for process in agents:
        process.kill()
    for pid in marked(logs):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    for process in agents:
        process.wait()


def marked(logs: Path) -> Iterator[int]:
    """Processes whose environment names this folder."""
    mark = f"{FOLDER}={logs}\0".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark in (entry / "environ").read_bytes():
                    yield int(entry.name)
            except OSError:
                continue
