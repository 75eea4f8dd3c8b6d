"""The training under torchft: a lighthouse, and a replica group of one worker for each worker.

torchft is used if it can be imported, else it is installed into a folder of its own beside this Python's
packages. Each replica group is started by torchrun, as torchft's documentation does it.
"""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.machine import free_port
from benchmarks.resizing import sides

VERSION = "torchft==0.2.0"
NEEDS = ("opentelemetry-sdk>=1.39", "opentelemetry-exporter-otlp-proto-http>=1.39")
"""What torchft imports beside torch."""
LIGHTHOUSE = {
    "min_replicas": 1,
    "quorum_tick_ms": 100,
    "join_timeout_ms": 10000,
    "heartbeat_timeout_ms": 1000,
}
"""As in torchft's README, but a replica is dead after one second without a heartbeat (they come every 0.1 s)
and not after the default of five: with the default every loss would cost it five seconds."""


def provide(folder: Path) -> str | None:
    """What PYTHONPATH needs for torchft ("": nothing); None: it is not to be had here."""
    if importlib.util.find_spec("torchft") is not None:
        return ""
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
    for wanted in (["--no-deps", VERSION], NEEDS):
        done = subprocess.run([*install, *wanted], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"torchft could not be installed: {done.stderr.strip()[-300:]}", file=sys.stderr)
            return None
    return str(folder)


class Torchft:
    """See `Side`."""

    def __init__(self, folder: Path, path: str) -> None:
        self.logs = folder
        self._path = path
        self._agents: list[subprocess.Popen[bytes]] = []
        self._lighthouse: subprocess.Popen[bytes] | None = None
        self._numbers = iter(range(10**9))

    def __enter__(self) -> Self:
        self._port = free_port()
        options = {"bind": f"[::]:{self._port}", **LIGHTHOUSE}
        program = (
            "import signal; from torchft.coordination import LighthouseServer; "
            f"server = LighthouseServer(**{options!r}); signal.pause()"
        )
        with (self.logs / "lighthouse.out").open("ab") as out:
            self._lighthouse = subprocess.Popen(
                [sys.executable, "-c", program],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        self.scale(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lighthouse = [self._lighthouse] if self._lighthouse is not None else []
        sides.end([*self._agents, *lighthouse], self.logs)

    def scale(self, workers: int) -> None:
        """More replica groups, or SIGTERM to the last of them."""
        while len(self._agents) < workers:
            self._agents.append(self._start(next(self._numbers)))
        for agent in self._agents[workers:]:
            agent.send_signal(signal.SIGTERM)
        del self._agents[workers:]

    def _environment(self, **more: str) -> dict[str, str]:
        env = sides.environment(self.logs, **more)
        return {**env, "PYTHONPATH": os.pathsep.join(filter(None, [self._path, env["PYTHONPATH"]]))}

    def _start(self, group: int) -> subprocess.Popen[bytes]:
        options = [
            "--nnodes=1",
            "--nproc-per-node=1",
            "--max-restarts=1000",
            "--monitor-interval=0.1",
            "--master-addr=127.0.0.1",
            f"--master-port={free_port()}",
        ]
        env = self._environment(
            TORCHFT_LIGHTHOUSE=f"http://127.0.0.1:{self._port}", REPLICA_GROUP_ID=str(group)
        )
        return sides.agent(
            options, "benchmarks.resizing.worker_torchft", env, self.logs / f"group{group}.out"
        )
