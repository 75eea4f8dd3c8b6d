"""The run of all checks, and the rules of its core tier."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core_rules import CoreRules
from tests.server.process import eventually
from tests.suite import Check, Run
from tests.tiers import TESTS

PASSES = "print('2 passed, 1 skipped in 0.10s')"
FAILS = "import sys; print('reason'); print('1 failed, 1 passed in 0.10s'); sys.exit(1)"


def check(name: str, program: str) -> Check:
    return Check(name, [sys.executable, "-c", program])


def test_a_run_adds_up_what_its_checks_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert Run([check("one", PASSES), check("two", PASSES)]).go() == 0
    said = capsys.readouterr().out
    assert "one | 2 passed, 1 skipped in 0.10s" in said
    assert said.splitlines()[-1] == "4 passed, 0 failed, 2 skipped"


def test_one_failed_check_fails_the_run_and_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert Run([check("good", PASSES), check("bad", FAILS)]).go() == 1
    said = capsys.readouterr().out
    assert "bad  | reason" in said
    assert "failed: bad;" in said
    assert said.splitlines()[-1] == "3 passed, 1 failed, 1 skipped"


def test_a_check_that_dies_fails_the_run_without_any_count(capsys: pytest.CaptureFixture[str]) -> None:
    dies = check("dies", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert Run([dies]).go() == 1
    assert "dies | FAILED, exit code -9" in capsys.readouterr().out


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_stopped_or_killed_interrupts_its_checks(tmp_path: Path, how: signal.Signals) -> None:
    """The check ends by an interrupt, as by Ctrl-C, and can stop what it started."""
    mark = tmp_path / "interrupted"
    waits = (
        "import pathlib, signal\n"
        "def note(*_):\n"
        f"    pathlib.Path({str(mark)!r}).touch()\n"
        "    raise SystemExit(1)\n"
        "signal.signal(signal.SIGINT, note)\n"
        "print('ready', flush=True)\n"
        "signal.pause()\n"
    )
    program = (
        "import sys\nfrom tests.suite import Check, Run\n"
        f"Run([Check('waits', [sys.executable, '-c', {waits!r}])]).go()"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", program], cwd=TESTS.parent, stdout=subprocess.PIPE, text=True, process_group=0
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "waits | ready\n"
    os.kill(run.pid, how)
    run.communicate()
    eventually(mark.exists, "the check to be interrupted")


@pytest.mark.parametrize(
    ("act", "rule"),
    [
        (lambda: subprocess.run(["true"], check=True), "started a process"),
        (lambda: sys.audit("import", "torch"), "imported torch"),
    ],
    ids=["process", "torch"],
)
def test_a_core_test_that_starts_a_process_or_imports_torch_is_found(act: object, rule: str) -> None:
    rules = CoreRules()
    rules.watching = True
    assert callable(act)
    act()
    rules.watching = False
    [broken] = rules.broken
    assert rule in broken
    assert "tests/tiers.py" in broken
