"""Give a run of pytest its folder and its network; name and remove what tests leave behind.

The next run removes what a killed run has left. A run that a test starts is part of the outer run.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.runs.leftovers import Leftover, remaining, remove, settled
from tests.runs.record import VARIABLE, Run, begin, dead, load, top
from tools.kubernetes.locking import locked

LEFT_BEHIND = 7
"""Exit code of a run whose tests passed but left something."""
ENDING = 60.0
"""Seconds for what is about to end, like devices of a network that the kernel removes in the background; only
leftovers take them."""
TEMPORARY = "TMPDIR"


def install(config: pytest.Config) -> None:
    """To be called by pytest_configure."""
    if hasattr(config, "workerinput") or inside_a_run() or not Path("/proc/self/stat").exists():
        return
    config.pluginmanager.register(Hooks(config))


def inside_a_run() -> bool:
    """Whether this process was started by a run that is still under way."""
    folder = os.environ.get(VARIABLE)
    try:
        return bool(folder) and load(Path(str(folder)).with_suffix(".json")).alive()
    except (OSError, ValueError):
        return False


class Hooks:
    def __init__(self, config: pytest.Config) -> None:
        self.top = top()
        self.left: list[Leftover] = []
        self.before = {name: os.environ.get(name) for name in (VARIABLE, TEMPORARY)}
        with guarded(self.top):
            for earlier in dead(self.top):
                remove(earlier)
            self.run: Run | None = begin(self.top)
        os.environ[VARIABLE] = os.environ[TEMPORARY] = tempfile.tempdir = str(self.run.folder)
        config.option.basetemp = config.option.basetemp or str(self.run.folder / "p")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """After all others: fixtures of the session and the processes of the suite have ended."""
        passed = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        self.end(ENDING if passed else 0)
        if self.left and passed:
            session.exitstatus = LEFT_BEHIND

    def end(self, patience: float = 0) -> None:
        if self.run is None:
            return
        run, self.run = self.run, None
        self.left = settled(run, patience)
        with guarded(self.top):
            remove(run)
            self.left += [one for one in remaining(run) if one not in self.left]
        for name, value in self.before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        tempfile.tempdir = None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.left:
            terminalreporter.section(f"{len(self.left)} left behind", sep="!")
        for one in self.left:
            terminalreporter.line(f"LEFT BEHIND {one}")

    def pytest_unconfigure(self) -> None:
        """Where no session came about."""
        self.end()


@contextmanager
def guarded(folder: Path) -> Iterator[None]:
    """One run at a time removes or begins; the last one removes the folder of all."""
    lock = folder / "lock"
    with locked(lock):
        yield
        if [entry.name for entry in folder.iterdir()] == ["lock"]:
            lock.unlink()
            folder.rmdir()
