"""This machine: a run is a process, and nothing is waited for. The bundle is used where it lies."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from grus.compare import records
from grus.compare.environments import (
    CODE,
    OUTPUT,
    RECORD,
    SAMPLER,
    Check,
    CollectedFiles,
    DriverFailed,
    Ending,
    EndingKind,
    Environment,
    ManualStep,
    Order,
    Started,
    Tell,
)
from grus.compare.preflight import look_here
from grus.compare.workload import Workload

PATIENCE = 15.0
"""Seconds that the sampler has to end its workload; it needs ten at most."""
MOST_OUTPUT = 64 << 10


VISIBLE = "CUDA_VISIBLE_DEVICES"


def visible(now: str | None, gpus: int) -> str:
    """Return the GPUs that a run may see: as many as it requested, as in a cluster, and no more."""
    names = [str(index) for index in range(gpus)] if now is None else now.split(",")
    return ",".join(names[:gpus])


class Local:
    """Runs are processes of this one, by name."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._bundle: Path | None = None
        self._place: Path | None = None
        self._visible: dict[str, str] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def environment(self) -> Environment:
        return self._environment

    def prepare(self, workload: Workload, bundle: Path) -> tuple[ManualStep, ...]:
        try:
            self._place = self._place or Path(tempfile.mkdtemp(prefix="grus-compare-"))
        except OSError as error:
            raise DriverFailed(
                f"no folder for runs could be made on this machine: {error.strerror}; set TMPDIR to one"
            ) from None
        self._bundle = bundle
        self._visible = {VISIBLE: visible(os.environ.get(VISIBLE), workload.gpus)}
        return ()

    def preflight(self, workload: Workload) -> tuple[Check, ...]:
        return look_here(workload, self._prepared()[0] / CODE)

    def start(self, order: Order) -> Started:
        bundle, place = self._prepared()
        self._end(order.name)
        folder = place / order.name
        shutil.rmtree(folder, ignore_errors=True)
        try:
            folder.mkdir()
            (folder / "order.json").write_text(order.text(), encoding="utf-8")
            submitted_at = time.time()
            with (folder / "sampler.err").open("wb") as errors:
                process = subprocess.Popen(
                    [sys.executable, bundle / SAMPLER, folder / "order.json", folder],
                    cwd=bundle,
                    env={**os.environ, **self._visible},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    start_new_session=True,  # a Ctrl-C is for us: we end it in order
                )
        except OSError as error:
            raise DriverFailed(f"{order.name} could not be started: {error}; is the disk full?") from None
        self._processes[order.name] = process
        return Started(order=order, handle=str(process.pid), submitted_at=submitted_at)

    def wait(self, started: Started, seconds: float, tell: Tell) -> Ending:
        name = started.order.name
        process = self._processes.get(name)
        if process is None:
            return Ending(end=EndingKind.NEVER_STARTED, why=f"no process of {name} is known here")
        tell("running")
        try:
            code = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self._end(name)
            return Ending(end=EndingKind.TIMED_OUT, why=f"it had not ended after {seconds:.0f} s")
        began = records.began(self.collect(started).record)
        startup = None if began is None else max(0.0, began - started.submitted_at)
        if code == 0:
            return Ending(end=EndingKind.ENDED, startup=startup)
        why = self._text(name, "sampler.err", last=2000).strip() or f"the sampler ended with {code}"
        return Ending(
            end=EndingKind.KILLED if began is not None else EndingKind.NEVER_STARTED, why=why, startup=startup
        )

    def collect(self, started: Started) -> CollectedFiles:
        name = started.order.name
        return CollectedFiles(
            record=self._text(name, RECORD), output=self._text(name, OUTPUT, last=MOST_OUTPUT)
        )

    def clean_up(self) -> None:
        for name in list(self._processes):
            self._end(name)
        if self._place is not None:
            shutil.rmtree(self._place, ignore_errors=True)
            self._place = None

    def _prepared(self) -> tuple[Path, Path]:
        if self._bundle is None or self._place is None:
            raise DriverFailed("nothing was prepared on this machine: prepare comes first")
        return self._bundle, self._place

    def _text(self, name: str, file: str, *, last: int = 0) -> str:
        """Return the content of a file of the run, or its last bytes; empty if there is none."""
        path = self._prepared()[1] / name / file
        data = path.read_bytes() if path.is_file() else b""
        return data[-last:].decode("utf-8", errors="replace")

    def _end(self, name: str) -> None:
        """Ask the sampler to end its workload; make it, if it does not."""
        process = self._processes.pop(name, None)
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
