"""The NVIDIA GPUs of this machine, measured by a child process (`nvml_probe`) so that nothing here waits
for a driver.

A thread asks the child every few seconds and at the end of each worker. A child that does not answer in
time is killed and replaced; until an answer comes, GPUs that no worker holds count as quarantined. A GPU
that was there and is gone stays in the pool, quarantined.
"""

import json
import logging
import os
import select
import subprocess
import sys
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from grus.concurrency.background_thread import BackgroundThread
from grus.model.backoff import backoff
from grus.model.identifiers import DeviceId
from grus.model.nodes import Device, Node
from grus.telemetry.device_provider import Owned, Reading
from grus.telemetry.gpu_health import islands, judge
from grus.telemetry.host_metrics import this_machine

logger = logging.getLogger(__name__)

INTERVAL = 2.0
PATIENCE = 8.0
"""Seconds that the driver has for an answer; with the interval, a lost GPU is noticed within 10 s."""
_LONGEST_PAUSE = 30.0
_PROGRAM = "import sys; from grus.telemetry.nvml_probe import main; main(sys.argv[1])"


class DriverTimeout(Exception):
    """The driver (or its child process) did not answer."""


class Probe:
    """One child process. Not for several threads at once."""

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def ask(self, patience: float) -> tuple[str, list[Reading], dict[DeviceId, float]]:
        """Driver version, readings, speeds; raises Silent when there is no answer in time."""
        self.say("read")
        found = self.hear(patience)
        if found is None:
            raise DriverTimeout(f"no answer in {patience:g} s")
        speeds = {DeviceId(gpu["id"]): gpu["speed"] for gpu in found["gpus"] if gpu.get("speed")}
        return found["driver"], [_reading(gpu) for gpu in found["gpus"] if gpu["id"]], speeds

    def say(self, word: str) -> None:
        """Send a request of this word to `nvml_probe`; raises Silent if the probe has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{word}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise DriverTimeout("the probe has ended") from None

    def hear(self, patience: float) -> dict[str, Any] | None:
        """The answer to what was said; None if there is none yet. Raises DriverTimeout if there will be
        none."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], patience)[0]:
            return None
        line = self._process.stdout.readline()
        if not line:
            raise DriverTimeout("the probe has ended")
        found: dict[str, Any] = json.loads(line)
        return found

    def end(self, patience: float = 1.0) -> None:
        """Kill it. A process that hangs inside the driver may not even die; then it is left alone."""
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


class NvmlSource:
    """`DeviceSource` of real GPUs."""

    virtual = False

    def __init__(
        self, *, module: str = "pynvml", interval: float = INTERVAL, patience: float = PATIENCE
    ) -> None:
        self._module = module
        self._interval = interval
        self._patience = patience
        self._node = this_machine()
        self._guard = threading.Lock()
        self._probe: Probe | None = None
        self._driver = ""
        self._known: dict[DeviceId, Device] = {}
        self._readings: dict[DeviceId, Reading] = {}
        self._outside: dict[DeviceId, str] = {}
        self._answering = True
        self._owned: Owned | None = None
        self._failures = 0
        self._thread: BackgroundThread | None = None

    def open(self, owned: Owned) -> None:
        self.close()
        self._owned = owned
        self._take_ownership(list(self._readings.values()))
        self._thread = BackgroundThread("grus-nvml", self._round, retry=self._interval)
        self._thread.start()

    def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.close()
        if self._probe is not None:
            self._probe.end()
            self._probe = None

    def nodes(self, held: Collection[DeviceId]) -> tuple[Node, ...]:
        with self._guard:
            devices = judge(
                list(self._known.values()),
                self._readings,
                outside=self._outside,
                held=held,
                answering=self._answering,
            )
        return (Node(id=self._node, devices=devices, cpu=_cpu(), memory=_memory()),)

    def readings(self) -> tuple[Reading, ...]:
        with self._guard:
            return tuple(self._readings.values())

    def look_again(self) -> None:
        if self._thread is not None:
            self._thread.wake()

    def mechanisms(self) -> dict[str, str]:
        return {
            "gpus": f"NVIDIA driver {self._driver}",
            "telemetry": f"NVML, every {self._interval:g} s, in a process of its own",
        }

    def measure(self) -> bool:
        """Ask the driver once and take over what it says; False if it is silent."""
        try:
            if self._probe is None:
                self._probe = Probe(self._module)
            driver, readings, speeds = self._probe.ask(self._patience)
        except (DriverTimeout, OSError, ValueError) as error:
            logger.warning("the GPU driver does not answer: %s", error)
            if self._probe is not None:
                self._probe.end()
                self._probe = None
            with self._guard:
                self._answering = False
            return False
        self._driver = driver
        with self._guard:
            self._answering = True
            self._readings = {reading.id: reading for reading in readings}
            self._learn(readings, speeds)
        self._take_ownership(readings)
        return True

    # --------------------------------------------------------------------------------------- inside

    def _round(self) -> float:
        if self.measure():
            self._failures = 0
            return self._interval
        self._failures += 1
        return backoff(self._failures, 2 * self._interval, _LONGEST_PAUSE)

    def _learn(self, readings: Sequence[Reading], speeds: dict[DeviceId, float]) -> None:
        """New GPUs join the pool; none ever leaves it by itself. Under the guard."""
        numbers = islands(readings)
        for reading in readings:
            if not reading.fault and reading.id not in self._known:
                self._known[reading.id] = Device(
                    id=reading.id,
                    type=reading.type,
                    memory=reading.memory,
                    island=numbers[reading.id],
                    speed=speeds.get(reading.id) or reading.memory / 80e9,
                )

    def _take_ownership(self, readings: Sequence[Reading]) -> None:
        """Distinguish Grus's own processes from others. Without an engine, no process is Grus's."""
        ours = self._owned(readings) if self._owned is not None else frozenset()
        outside = {reading.id: _users(reading, ours) for reading in readings}
        with self._guard:
            self._outside = {device: users for device, users in outside.items() if users}


def find(*, module: str = "pynvml", patience: float = PATIENCE) -> NvmlSource | None:
    """The GPUs of this machine; None without a driver or without GPUs. Not started yet: `open` does that."""
    source = NvmlSource(module=module, patience=patience)
    if source.measure() and source.readings():
        return source
    source.close()
    return None


def _users(reading: Reading, ours: frozenset[int]) -> str:
    """Describe other users of the GPU, for people. A process that cannot be seen here (any more) does not
    count.
    """
    others = [text for pid, _ in reading.processes if pid not in ours and (text := _describe(pid))]
    rest = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return others[0] + rest if others else ""


def _describe(pid: int) -> str:
    folder = Path(f"/proc/{pid}")
    try:
        return f"pid {pid} {(folder / 'comm').read_text().strip()}, user {folder.stat().st_uid}"
    except OSError:
        return ""


def _reading(gpu: dict[str, object]) -> Reading:
    if gpu.get("fault"):
        return Reading(DeviceId(str(gpu["id"])), "", 0, 0, None, (), fault=str(gpu["fault"]))
    processes, links = gpu["processes"], gpu["links"]
    assert isinstance(processes, list)
    assert isinstance(links, list)
    return Reading(
        id=DeviceId(str(gpu["id"])),
        type=str(gpu["type"]),
        memory=int(str(gpu["memory"])),
        used=int(str(gpu["used"])),
        utilisation=_number(gpu["utilisation"]),
        processes=tuple((int(pid), int(held)) for pid, held in processes),
        links=tuple(DeviceId(link) for link in links),
        memory_time=_number(gpu["memory_time"]),
        power=_number(gpu["power"]),
        energy=_number(gpu["energy"]),
        temperature=_number(gpu["temperature"]),
        minor=minor if isinstance(minor := gpu.get("minor"), int) else None,
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _cpu() -> int:
    """Thousandths of a core that this process may use."""
    return 1000 * len(os.sched_getaffinity(0))


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
