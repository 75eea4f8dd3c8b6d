"""Rules for all tests: the marker `serial`, the long ones first, and no skip that goes unnoticed.

Every test that could not run is named at the end with its reason. With REQUIRE_ALL=1 (continuous integration)
one such test fails the whole run: a proof that did not happen is not a proof.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

# What every store and engine promises is no test file itself, yet its asserts shall tell what they saw.
for _name in ("engine_contract", "source_contract", "store_contract", "store_log_contract"):
    pytest.register_assert_rewrite(f"tests.contracts.{_name}")

LONG = ("live", "chaos", "kubernetes", "elastic")
"""Folders whose tests wait for real processes. They begin first, so that the short ones fill what is left at
the end."""

SOME_NOT_RUN = 6
"""Exit code, apart from that of failed tests: a second look at those does not make up for it."""
DIED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "serial: needs the machine for itself (measures time or load)")
    # A suite begun in the background of a shell ignores Ctrl-C, and so would every program that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Jobs find `python` by the PATH of who submits them: the tests submit as from an activated environment.
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _turn(item.path))


def _turn(path: Path) -> int:
    folder = path.relative_to(Path(__file__).parent).parts[0]
    return LONG.index(folder) if folder in LONG else len(LONG)


def not_run(config: pytest.Config) -> dict[str, str]:
    """What was skipped, and why."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skips = reporter.stats.get("skipped", []) if reporter else []
    return {report.nodeid or str(report.location): reason(report) for report in skips}


def reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def required() -> bool:
    return os.environ.get("REQUIRE_ALL") == "1"


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A process of the suite has ended, too early if there is an error: then nobody runs the rest."""
    if error:
        node.config.stash[DIED] = True


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if session.config.stash.get(DIED, False) or (required() and not_run(session.config)):
        session.exitstatus = SOME_NOT_RUN


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skips = not_run(config)
    if not skips:
        return
    verdict = "a failure, since REQUIRE_ALL=1" if required() else "REQUIRE_ALL=1 makes this a failure"
    terminalreporter.section(f"{len(skips)} could not run ({verdict})", sep="!")
    for name, why in sorted(skips.items()):
        terminalreporter.line(f"NOT RUN {name}: {why}")
