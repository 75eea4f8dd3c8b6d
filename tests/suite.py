"""Run the checks of the project side by side: style, import rules, types and every tier of the tests.

    python -m tests.suite             everything (`make test`)
    python -m tests.suite --check     style, import rules, types and the core tier (`make check`)

Most tests wait for other programs. Each tier is therefore one run of pytest with its own workers, more of
them than there are cores, and the operating system gives the cores to those that compute. Every line of
output starts with the name of its check.
"""

import argparse
import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.runs import machine
from tests.tiers import BROWSER, CLUSTER, CORE, PROCESS, TORCH

ROOT = Path(__file__).resolve().parent.parent
TOOLS = Path(sys.executable).parent
COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped)")
FAILURE = ("FAILED ", "ERROR ")
"""First words of the lines in which pytest lists what failed."""
PR_SET_PDEATHSIG = 1

WORKERS = {PROCESS: 2, TORCH: 1, CLUSTER: 1, BROWSER: 1, CORE: 2}
"""Workers of each tier in a whole run, those that take longest first."""
CHECK_WORKERS = {CORE: 2}
SLOTS = 4
"""Workers that run at once on two cores: most of them wait, but with more the waits run into their limits."""


@dataclass(slots=True)
class Check:
    """One program of the run, its output and its result."""

    name: str
    command: list[str]
    workers: int = 1
    code: int | None = None
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @property
    def result(self) -> str:
        return "ok" if self.code == 0 else "FAILED"

    def read(self, line: str) -> None:
        """Keep the counts of pytest's closing line, and the failures that it lists before."""
        if line.startswith(FAILURE):
            self.failures.append(line.rstrip())
        if " in " in line and (found := COUNT.findall(line)):
            self.counts = {
                name.rstrip("s") if name.startswith("error") else name: int(n) for n, name in found
            }


def checks(workers: dict[str, int], words: list[str], times: Path | None = None) -> list[Check]:
    """List what to run: what takes seconds first, then what takes longest."""
    tiers = [
        Check(tier, pytest_command(tier, count, [*words, *timing(tier, times)]), count)
        for tier, count in workers.items()
    ]
    return [
        Check("style", [sys.executable, "-m", "ruff", "check", "--quiet", "."]),
        Check("format", [sys.executable, "-m", "ruff", "format", "--check", "--quiet", "."]),
        Check("imports", [str(TOOLS / "lint-imports"), "--no-cache"]),
        *tiers,
        Check("types", [sys.executable, "-m", "mypy"]),
    ]


def pytest_command(tier: str, workers: int, words: list[str]) -> list[str]:
    """Return the command of a tier. A worker that dies is not replaced: the run ends and names its test."""
    parallel = [
        "-n",
        str(workers),
        "--max-worker-restart",
        "0",
        "--dist",
        "loadfile",
        "--no-loadscope-reorder",
    ]
    return [sys.executable, "-m", "pytest", "--tier", tier, *parallel, *words]


def timing(tier: str, times: Path | None) -> list[str]:
    """Return the words that record times (`tests.times`), which the folder then has by tier."""
    if times is None:
        return []
    times.mkdir(parents=True, exist_ok=True)
    # One word: pytest takes a path that stands alone for tests, and then reads no settings of the project.
    return ["-p", "tests.times", f"--times={times.resolve() / tier}.jsonl"]


def end_with_parent() -> None:
    """Ask the kernel to interrupt this process when its parent dies, so that a killed run stops its tests."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)


class Run:
    """All checks side by side, with their lines on one output."""

    def __init__(self, checks: list[Check]) -> None:
        self.checks = checks
        self._print_lock = threading.Lock()
        self._width = max(len(check.name) for check in checks)
        self._processes: list[subprocess.Popen[str]] = []
        self._slots_changed = threading.Condition()
        self._free = SLOTS
        self._temporary = machine.entries()

    def go(self) -> int:
        threads: list[threading.Thread] = []
        try:
            for check in self.checks:
                self._wait_for_slots(check)
                self._processes.append(self._start(check))
                threads.append(threading.Thread(target=self._follow, args=(check, self._processes[-1])))
                threads[-1].start()
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            self._interrupt()
            for thread in threads:
                thread.join()
            return 130
        return self._summary()

    def _wait_for_slots(self, check: Check) -> None:
        """Start checks in their order, each when there are slots for its workers."""
        with self._slots_changed:
            self._slots_changed.wait_for(lambda: self._free >= min(check.workers, SLOTS))
            self._free -= check.workers

    def _start(self, check: Check) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            check.command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # A group of its own: Ctrl-C reaches the checks once, through this process.
            process_group=0,
            preexec_fn=end_with_parent if sys.platform == "linux" else None,
        )

    def _follow(self, check: Check, process: "subprocess.Popen[str]") -> None:
        start = time.monotonic()
        with process:
            assert process.stdout is not None
            for line in process.stdout:
                check.read(line)
                self._say(check.name, line.rstrip("\n"))
        check.code = process.returncode
        check.seconds = time.monotonic() - start
        self._say(check.name, f"{check.result}, exit code {check.code}, after {check.seconds:.0f} s")
        with self._slots_changed:
            self._free += check.workers
            self._slots_changed.notify()

    def _interrupt(self) -> None:
        """Interrupt each check, as Ctrl-C does; they stop what they started."""
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)

    def _say(self, name: str, line: str) -> None:
        with self._print_lock:
            print(f"{name:{self._width}} | {line}", flush=True)

    def _summary(self) -> int:
        print(f"\n{'check':{self._width}}  result  seconds  passed  failed  skipped")
        total: dict[str, int] = {}
        for check in self.checks:
            row = {name: check.counts.get(name, 0) for name in ("passed", "failed", "skipped")}
            row["failed"] += check.counts.get("error", 0)
            total = {name: total.get(name, 0) + count for name, count in row.items()}
            figures = "".join(f"{count:8}" for count in row.values()) if check.counts else ""
            print(f"{check.name:{self._width}}  {check.result:6}  {check.seconds:7.0f}{figures}")
        bad = [check.name for check in self.checks if check.code != 0]
        if bad:
            print(f"failed: {', '.join(bad)}; the lines above that start with these names say why")
            for check in self.checks:
                print("".join(f"  {failure}\n" for failure in check.failures), end="")
        left = machine.left(self._temporary)
        for path in left:
            print(f"LEFT BEHIND {path}")
        print(", ".join(f"{count} {name}" for name, count in total.items()), flush=True)
        return 1 if bad or left else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the checks of the project side by side.")
    parser.add_argument("--check", action="store_true", help="only what needs no other process")
    parser.add_argument("--times", type=Path, metavar="FOLDER", help="record the times of all tests there")
    parser.add_argument("words", nargs="*", help="more words for pytest, after --")
    options = parser.parse_args()
    # A run in the background of a shell ignores Ctrl-C, and so would every check that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each of thousands of processes would compile Grus again
    workers = CHECK_WORKERS if options.check else WORKERS
    return Run(checks(workers, options.words, options.times)).go()


if __name__ == "__main__":
    sys.exit(main())
