"""The training as a Grus job: a real server with four virtual GPUs, resized as a user does it."""

import shutil
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.grus_server import GrusServer
from benchmarks.machine import wait_for
from benchmarks.resizing import sides
from benchmarks.resizing.measure import progress
from benchmarks.resizing.steps import FOLDER, StepLogs
from grus.sdk.client import Client

PATIENCE = 120.0
KEPT = ("OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME", "PYTHONPATH")
"""What the rivals' workers find in their environment too."""


class GrusJob:
    """A server of its own and one job on it, for as long as the context lasts."""

    def __init__(self, folder: Path, module: str, gpu: str, env: dict[str, str]) -> None:
        self._folder = folder
        self._server = GrusServer(pool=f"1x{sides.MOST}x16GB")
        kept = {name: sides.environment(folder)[name] for name in KEPT}
        self._document = {
            "name": "resize",
            "run": [sys.executable, "-m", module],
            "resources": {"gpu": gpu},
            "launch": "per-gpu",
            "workdir": str(folder),
            "env": {**kept, **env},
        }

    def __enter__(self) -> Self:
        self._server.__enter__()
        self._client = Client(self._server.address, self._server.token)
        self._job = self._client.submit(self._document)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()
        try:
            shutil.copytree(self._server.root, self._folder / "server", ignore=_pipes)
        finally:
            self._server.stop()

    def scale(self, workers: int) -> None:
        self._client.scale(self._job.id, workers)


def _pipes(folder: str, names: list[str]) -> list[str]:
    """What cannot be copied."""
    return [name for name in names if not (Path(folder, name).is_file() or Path(folder, name).is_dir())]


class Grus(GrusJob):
    """See `Side`."""

    def __init__(self, folder: Path) -> None:
        self.logs = folder
        self._steps = StepLogs(folder)
        env = {FOLDER: str(folder)}
        super().__init__(folder, "benchmarks.resizing.worker_grus", f"1..{sides.MOST}", env)

    def __enter__(self) -> Self:
        """It takes the whole pool, which is empty; from there it is made small."""
        super().__enter__()
        try:
            wait_for(lambda: self._world() > 0, PATIENCE, "the first step", every=0.2)
            self.scale(1)
            wait_for(lambda: self._world() == 1, PATIENCE, "a step with one worker", every=0.2)
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def _world(self) -> int:
        """Workers that shared the last step; 0 before the first."""
        steps = progress(self._steps.read())
        return steps[-1].world if steps else 0
