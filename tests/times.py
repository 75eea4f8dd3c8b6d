"""pytest plugin: record per test the wall time, the CPU time and the programs that it starts.

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
from pathlib import Path
from typing import Any

import pytest

STARTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec"})
"""Audit events of CPython that start a process."""

RECORD = "times"
"""Name of the user property that carries a test's record from its process to the one that writes the file."""


class Recorder:
    """Record of the test that runs in this process."""

    def __init__(self) -> None:
        self.programs: set[str] = set()
        self.imports: set[str] = set()
        self.start = self.now()
        sys.addaudithook(self.audit)

    def now(self) -> tuple[float, float, float]:
        used = os.times()
        return time.monotonic(), used.user + used.system, used.children_user + used.children_system

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
