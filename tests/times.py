"""pytest plugin: record per test the wall time, the CPU time and the programs that it starts.

CPU time is that of the whole control group of the test's worker, where the system has one to give (root on
Linux): it includes programs that outlive their parents, such as the workers of a job. Elsewhere it is that of
the worker and of the children whose end it has seen.

    python -m tests.suite --times FOLDER
    python -m tests.times FOLDER/*.jsonl

The second command prints where the time goes, by file and by kind.
"""

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tools.kubernetes import cgroups

STARTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec"})
"""Audit events of CPython that start a process."""

RECORD = "times"
"""Name of the user property that carries a test's record from its process to the one that writes the file."""


class CpuGroup:
    """Control group of this process and of all that it starts."""

    def __init__(self) -> None:
        hierarchies = cgroups.hierarchies() if cgroups.TOP.exists() and os.geteuid() == 0 else []
        version_1 = [folder for folder in hierarchies if (folder / "cpuacct.usage").exists()]
        self.folder = next(iter([*version_1, *hierarchies]), None)
        if self.folder is not None:
            self.folder /= f"grus-times-{os.getpid()}"
            self.folder.mkdir()
            (self.folder / "cgroup.procs").write_text("0")

    def seconds(self) -> float | None:
        if self.folder is None:
            return None
        if (usage := self.folder / "cpuacct.usage").exists():
            return int(usage.read_text()) / 1e9
        stat = (self.folder / "cpu.stat").read_text().split()
        return int(stat[stat.index("usage_usec") + 1]) / 1e6

    def remove(self) -> None:
        """Leave the group and remove it; one in which programs still run stays."""
        if self.folder is None:
            return
        (self.folder.parent / "cgroup.procs").write_text("0")
        with suppress(OSError):
            self.folder.rmdir()


class Recorder:
    """Record of the test that runs in this process."""

    def __init__(self) -> None:
        self.group = CpuGroup()
        self.programs: set[str] = set()
        self.imports: set[str] = set()
        self.start = self.now()
        sys.addaudithook(self.audit)

    def now(self) -> tuple[float, float, float]:
        used = os.times()
        own, children = used.user + used.system, used.children_user + used.children_system
        group = self.group.seconds()
        return time.monotonic(), own, children if group is None else group - own

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event in STARTS:
            self.programs.add(_program(args))
        elif event == "import" and args[0] == "torch":
            self.imports.add("torch")

    def begin(self) -> None:
        self.start = self.now()
        self.programs.clear()
        self.imports.clear()

    def record(self) -> dict[str, Any]:
        wall, own, children = (after - before for after, before in zip(self.now(), self.start, strict=True))
        return {
            "wall": round(wall, 3),
            "cpu": round(own, 3),
            "children_cpu": round(children, 3),
            "programs": sorted(self.programs),
            "imports": sorted(self.imports),
            "worker": os.environ.get("PYTEST_XDIST_WORKER", ""),
        }

    def pytest_unconfigure(self) -> None:
        self.group.remove()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        self.begin()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            fixtures = sorted(getattr(item, "fixturenames", ()))
            report.user_properties.append((RECORD, {**self.record(), "fixtures": fixtures}))
        return report


def _program(args: tuple[Any, ...]) -> str:
    if not args:
        return "fork"
    command = args[1] if len(args) > 1 and isinstance(args[1], list | tuple) else [args[0]]
    words = [
        Path(os.fsdecode(word)).name for word in command[:3] if isinstance(word, str | bytes | os.PathLike)
    ]
    return " ".join(words)[:80]


class Writer:
    """Append each finished test to the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, record in report.user_properties:
            if name == RECORD and report.when == "teardown" and isinstance(record, dict):
                with self.path.open("a") as file:
                    file.write(json.dumps({"test": report.nodeid, **record}) + "\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", type=Path, help="write wall and CPU time of each test to this file")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--times")
    if path is None:
        return
    config.pluginmanager.register(Recorder(), "times-recorder")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Writer(path), "times-writer")


def kind(record: dict[str, Any]) -> str:
    """Name the most expensive thing that a test uses."""
    fixtures, programs = set(record["fixtures"]), " ".join(record["programs"])
    name = record["test"]
    if name.startswith("tests/browser") or "chromium" in programs:
        return "browser"
    if {"cluster", "nodes"} & fixtures or name.startswith("tests/kubernetes"):
        return "cluster"
    if name.startswith(("tests/elastic", "tests/serving", "tests/partition", "tests/estimation")):
        return "torch"
    if programs:
        return "processes"
    return "computing"


def main(paths: list[Path]) -> None:
    records = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    for title, key in (("kind", kind), ("folder", _folder), ("file", _file)):
        print(f"\n{title:50} tests   wall s    CPU s  waiting s")
        groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for record in records:
            groups[key(record)].append(record)
        rows = [(sum(r["wall"] for r in group), name, group) for name, group in groups.items()]
        for wall, name, group in sorted(rows, reverse=True)[:60]:
            cpu = sum(r["cpu"] + r["children_cpu"] for r in group)
            waiting = sum(max(0.0, r["wall"] - r["cpu"] - r["children_cpu"]) for r in group)
            print(f"{name:50} {len(group):5} {wall:8.1f} {cpu:8.1f} {waiting:10.1f}")


def _folder(record: dict[str, Any]) -> str:
    return str(record["test"]).split("/")[1]


def _file(record: dict[str, Any]) -> str:
    return str(record["test"]).split("::")[0].removeprefix("tests/")


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:]])
