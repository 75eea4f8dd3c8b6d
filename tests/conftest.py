"""Rules for all tests: tiers, and no skip or dead process that is not reported.

Every test that could not run is named at the end with its reason. With REQUIRE_ALL=1 (continuous integration)
one such test fails the whole run: a proof that did not happen is not a proof.
"""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests import fork_server, tiers
from tests.core_rules import CoreRules
from tests.last_output import DIED, LastOutput
from tests.properties import profiles
from tests.runs import plugin as runs

# What every store and engine promises is no test file itself, yet its asserts shall tell what they saw.
pytest.register_assert_rewrite(
    "tests.contracts.engine_contract",
    "tests.contracts.source_contract",
    "tests.contracts.store_contract",
    "tests.contracts.store_log_contract",
)

SOME_NOT_RUN = 6
"""Exit code, apart from that of failed tests: some did not run at all."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=tiers.ALL, help="run the tests of this tier only (tests/tiers.py)")


def pytest_configure(config: pytest.Config) -> None:
    profiles.load()
    config.pluginmanager.register(CoreRules(), "core-rules")
    config.pluginmanager.register(LastOutput(), "last-output")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Failures(config), "failures")
    # A suite started in the background of a shell ignores Ctrl-C, and so would every program that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Jobs find `python` by the PATH of who submits them: the tests submit as from an activated environment.
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    # Some virtual machines name AMX among their instructions, and end the process that uses them (SIGILL).
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    runs.install(config)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of other tiers before they are imported."""
    tier = config.getoption("--tier")
    if tier is None or collection_path.suffix != ".py":
        return None
    return tiers.tier_of(collection_path) != tier or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the long files first, so that the short ones fill what is left at the end."""
    items.sort(key=lambda item: not tiers.LONG & set(item.path.parts))


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


class Failures:
    """pytest plugin that names each failed test at once; the reasons follow at the end of the run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            reporter.line(f"\n{report.when} failed: {report.nodeid}")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    fork_server.close_shared()
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
