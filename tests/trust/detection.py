"""How long until trouble is noticed: `python -m tests.trust.detection [--rounds 3]`, one JSON line.

A real server, real processes, and what is promised by default:

- a GPU is lost: the NVIDIA driver that the server asks is a pretended one (`tests.telemetry.fake_pynvml`).
  It says in turn that the GPU is lost, or nothing of it any more. Noticed is what the pool shows; the job
  has moved when it runs on another GPU;
- a job hangs: one is stopped by a signal, one spins without a step. Noticed is the event `hung`;
- a member of a team of `grus.train` is stopped: it is cut off when it is dead, and the others go on.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.live.pool import LivePool
from tests.server.process import eventually
from tests.telemetry.nvml_driver import a_gpu

ROOT = Path(__file__).parents[2]
RHYTHM = ROOT / "tests" / "live" / "rhythm_program.py"
CODE = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
GPUS = 3
GPU_AIM, HANG_AIM = 10.0, 120.0
"""Seconds in which a lost GPU, and a hang, must be noticed."""
PATIENCE = 300.0
"""Seconds after which it counts as never noticed; a busy machine may be far from the aims."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds, the longest of all that were measured."""

    lost_gpu_noticed_s: float
    moved_s: float
    hang_noticed_s: float
    hang_cut_off_s: float
    went_on_s: float
    """From the stop of a member to the next step of the others."""

    @property
    def kept(self) -> bool:
        """Whether all of it is within the aims."""
        hangs = max(self.hang_noticed_s, self.hang_cut_off_s, self.went_on_s)
        return max(self.lost_gpu_noticed_s, self.moved_s) <= GPU_AIM and hangs <= HANG_AIM


# ------------------------------------------------------------------------------------------ lost GPUs


class Driven(LivePool):
    """A server on the GPUs of a pretended driver, which says what `says` was last told."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "")
        self._config = '[server]\nport = 0\npool = "nvml"\n'
        self._driver = folder / "driver.json"
        modules = folder / "modules"
        modules.mkdir()
        (modules / "pynvml.py").write_text("from tests.telemetry.fake_pynvml import *\n")
        self.env |= {"FAKE_NVML": str(self._driver), "PYTHONPATH": f"{modules}{os.pathsep}{CODE}"}
        self.says([a_gpu(number) for number in range(GPUS)])

    def says(self, gpus: Sequence[dict[str, Any]]) -> None:
        new = self._driver.with_suffix(".new")
        new.write_text(json.dumps({"driver": "555.42", "gpus": gpus}))
        new.replace(self._driver)

    def healthy(self) -> set[str]:
        return {gpu.id for node in self.grus.nodes() for gpu in node.gpus if gpu.health == "healthy"}

    def place(self, name: str) -> str | None:
        """The GPU on which a job runs; None while it does not."""
        job = self[name]
        devices = [device for seat in job.seats for device in seat.devices]
        return devices[0] if job.phase == "running" else None


def lost_gpus(folder: Path, rounds: int) -> list[tuple[float, float]]:
    """For each round, seconds until it was noticed and until the job ran elsewhere."""
    found = []
    with Driven(folder) as pool:
        whole = [a_gpu(number) for number in range(GPUS)]
        pool.submit("job")
        for number in range(rounds):
            eventually(lambda: len(pool.healthy()) == GPUS, "all GPUs are there", PATIENCE)
            eventually(lambda: pool.place("job") is not None, "the job runs", PATIENCE)
            lost = pool.place("job")
            others = [gpu for gpu in whole if gpu["uuid"] != lost]
            silent = number % 2 == 1  # not even a message
            pool.says(others if silent else [*others, {"uuid": lost, "lost": True}])
            found.append(_until_moved(pool, str(lost)))
            _say(
                f"GPU {'gone' if silent else 'lost'}: noticed after {found[-1][0]} s, moved {found[-1][1]} s"
            )
            pool.says(whole)
    return found


def _until_moved(pool: Driven, lost: str) -> tuple[float, float]:
    begun = time.monotonic()
    noticed = _seconds_until(lambda: lost not in pool.healthy(), begun, "the lost GPU is noticed")
    return noticed, _seconds_until(lambda: pool.place("job") not in (None, lost), begun, "the job moves")


# ---------------------------------------------------------------------------------------------- hangs


def hangs(folder: Path) -> tuple[float, float, float]:
    """Seconds until the slower of two hangs was told, until a member was cut off, until its team went on."""
    with LivePool(folder, "1x4x2GB") as pool:
        hang = folder / "hang"
        for name, more in (("stopped", []), ("spins", ["--until", str(hang), "--then", "spin"])):
            run = [sys.executable, str(RHYTHM), "1", "--steps", *more]
            pool.submit(name, run=run, env={"PYTHONPATH": CODE})
        team = Team(pool, folder)
        eventually(lambda: all(_stepped(pool, name) for name in ("stopped", "spins")), "both step", PATIENCE)
        begun = time.monotonic()
        os.kill(_pids(pool, "stopped")[0], signal.SIGSTOP)
        hang.touch()
        with ThreadPoolExecutor(1) as beside:
            cut = beside.submit(team.cut_off)
            told = [
                _seconds_until(lambda name=name: _told(pool, name), begun, f"{name} is told to hang")  # type: ignore[misc]  # bound now
                for name in ("stopped", "spins")
            ]
            _say(f"hangs: told after {told} s")
            return max(told), *cut.result()


class Team:
    """Two processes that train together with `grus.train`, as patient as it is by default."""

    def __init__(self, pool: LivePool, folder: Path) -> None:
        self._pool = pool
        self._folder = folder / "training"
        self._folder.mkdir()
        task = {"folder": str(self._folder), "epochs": 10**6, "pace": 0.2, "audit": False}
        pool.submit(
            "team",
            gpus="1..2",
            run=[sys.executable, "-m", "tests.elastic.trainee"],
            launch="per-gpu",
            env={"PYTHONPATH": CODE, "OMP_NUM_THREADS": "1", "TRAINEE": json.dumps(task)},
        )

    def cut_off(self) -> tuple[float, float]:
        """Stop a member; seconds until it is dead, and until the other one has done a step without it."""
        eventually(lambda: len(self._at()) == 2 and min(self._at().values()) >= 3, "two train", PATIENCE)
        stays, goes = sorted(self._at())
        begun = time.monotonic()
        os.kill(goes, signal.SIGSTOP)
        cut = _seconds_until(lambda: not Path(f"/proc/{goes}").exists(), begun, "the stopped one is cut off")
        before = self._at()[stays]
        on = _seconds_until(lambda: self._at().get(stays, 0) > before, begun, "the other one goes on")
        _say(f"team: cut off after {cut} s, the other went on after {on} s")
        return cut, on

    def _at(self) -> dict[int, int]:
        """Steps done by each living member, by its pid."""
        found = {}
        for pid in _pids(self._pool, "team"):
            with suppress(FileNotFoundError, ValueError, IndexError):  # gone, or being written
                found[pid] = int((self._folder / "at" / str(pid)).read_text().split()[1])
        return found


def _pids(pool: LivePool, name: str) -> list[int]:
    workers = pool.grus.workers(pool.handles[name].id)
    return [worker.pid for worker in workers if worker.state == "running" and worker.pid is not None]


def _stepped(pool: LivePool, name: str) -> bool:
    """Often enough for its pace to be known."""
    return pool[name].progress.get("step", 0) >= 10


def _told(pool: LivePool, name: str) -> bool:
    return any(event.job == pool.handles[name].id for event in pool.events("hung"))


# ------------------------------------------------------------------------------------------- together


def _seconds_until(true: Callable[[], bool], begun: float, what: str) -> float:
    eventually(true, what, PATIENCE)
    return round(time.monotonic() - begun, 2)


def run(folder: Path, rounds: int) -> Figures:
    """All at once, for most of it is waiting."""
    for name in ("driver", "hangs"):
        (folder / name).mkdir()
    with ThreadPoolExecutor(2) as both:
        lost = both.submit(lost_gpus, folder / "driver", rounds)
        noticed, cut, on = both.submit(hangs, folder / "hangs").result()
        longest = [max(times) for times in zip(*lost.result(), strict=True)]
    return Figures(longest[0], longest[1], noticed, cut, on)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.trust.detection")
    options.add_argument("--rounds", type=int, default=3, help="how many GPUs are lost")
    rounds: int = options.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        figures = run(Path(folder), rounds)
    print(json.dumps({"rounds": rounds, **asdict(figures)}))
    return 0 if figures.kept else 1


if __name__ == "__main__":
    sys.exit(main())
