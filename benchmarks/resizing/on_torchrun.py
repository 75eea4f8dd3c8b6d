"""The training under torchrun: one agent a worker, as if each were a node of its own.

Tuned, the rendezvous is quick and its store lives outside of all agents (a death cannot take it away);
with defaults, the first agent hosts it.
"""

import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from torch.distributed import TCPStore  # type: ignore[attr-defined]  # exported at run time only

from benchmarks.machine import free_port
from benchmarks.resizing import sides

TUNED = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3,is_host=false"
UNSHARED = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""Otherwise workers of a later round meet at the store of the first, and a group that grew never forms."""


class Torchrun:
    """See `Side`."""

    def __init__(self, folder: Path, *, tuned: bool) -> None:
        self.logs = folder
        self._tuned = tuned
        self._agents: list[subprocess.Popen[bytes]] = []
        self._store: TCPStore | None = None

    def __enter__(self) -> Self:
        self._port = free_port()
        if self._tuned:
            self._store = TCPStore("127.0.0.1", self._port, is_master=True, wait_for_workers=False)
        self.scale(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sides.end(self._agents, self.logs)
        self._store = None

    def scale(self, workers: int) -> None:
        """More agents, or SIGTERM to the last of them: torchrun has no other way to be told."""
        while len(self._agents) < workers:
            self._agents.append(self._start())
        leaving = self._agents[workers:]
        for agent in leaving:
            agent.send_signal(signal.SIGTERM)
        del self._agents[workers:]

    def _start(self) -> subprocess.Popen[bytes]:
        options = [
            f"--nnodes=1:{sides.MOST}",
            "--nproc-per-node=1",
            "--max-restarts=1000",
            "--rdzv-backend=c10d",
            "--rdzv-id=resize",
            f"--rdzv-endpoint=127.0.0.1:{self._port}",
            *([f"--rdzv-conf={TUNED}", "--monitor-interval=0.1"] if self._tuned else []),
        ]
        env = sides.environment(self.logs, **UNSHARED)
        return sides.agent(options, "benchmarks.resizing.worker_torchrun", env, self.logs / "agents.out")
