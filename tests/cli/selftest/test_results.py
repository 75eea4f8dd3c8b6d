"""`grus selftest`: states, exit codes and the page, on machines that are made up."""

from pathlib import Path

import pytest

from grus.cli.selftest.checks import Bench, checks
from grus.cli.selftest.host_inventory import Machine
from grus.cli.selftest.results import (
    CheckFailed,
    CheckResult,
    CheckState,
    SelftestCheck,
    exit_code,
    page,
    summary,
    tried,
)

NO_GPU = Machine(grus="1.0", torch="2.9")
ONE = Machine(driver="580.1", gpus=("A100",), torch="2.9", torch_gpus=1)
TWO = Machine(driver="580.1", gpus=("A100", "A100"), torch="2.9", torch_gpus=2, mps=True)


def able(machine: Machine) -> str:
    return "" if machine.gpus else "no GPU"


def fails() -> str:
    raise CheckFailed("3 of 4")


def breaks() -> str:
    raise KeyError("x")


def names_lacking(machine: Machine, bench: Bench) -> dict[str, str]:
    return {check.name: lacks for check in checks(bench) if (lacks := check.lacks(machine))}


@pytest.mark.parametrize(
    ("run", "machine", "state", "text"),
    [
        (lambda: "fine", ONE, CheckState.PASSED, "fine"),
        (fails, ONE, CheckState.FAILED, "3 of 4"),
        (breaks, ONE, CheckState.FAILED, "KeyError: 'x'"),
        (breaks, NO_GPU, CheckState.NOT_TESTED, "memory: no GPU"),
    ],
)
def test_a_check_passes_fails_or_says_why_it_cannot_run(run, machine, state, text) -> None:  # type: ignore[no-untyped-def]
    found = tried(SelftestCheck("m", "memory", able, run), machine, iter((1.0, 3.0)).__next__)
    assert (found.state, found.text) == (state, text)


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ((CheckState.PASSED, CheckState.PASSED), 0),
        ((CheckState.PASSED, CheckState.FAILED, CheckState.NOT_TESTED), 1),
        ((CheckState.PASSED, CheckState.NOT_TESTED), 7),
    ],
)
def test_the_exit_code_tells_passed_failed_and_incomplete_apart(
    states: tuple[CheckState, ...], code: int
) -> None:
    assert exit_code([CheckResult("x", state, "") for state in states]) == code


def test_the_page_has_versions_results_and_what_was_not_tested() -> None:
    results = [
        CheckResult("nvml", CheckState.PASSED, "2 GPUs | all", 0.5),
        CheckResult("mps", CheckState.NOT_TESTED, "no daemon"),
    ]
    text = page(TWO, results, "2026-01-05")
    assert "| GPUs | 2 × A100 |" in text
    assert "| nvml | passed | 0.5 | 2 GPUs \\| all |" in text
    assert "- mps: no daemon" in text
    assert summary(results) == "1 passed, 1 not tested."
    assert "Rehearsed" not in text


def test_each_machine_is_told_what_it_lacks(tmp_path: Path) -> None:
    bench = Bench(tmp_path, tmp_path)
    assert len(names_lacking(NO_GPU, bench)) == len(checks(bench))
    assert set(names_lacking(ONE, bench)) == {"mps", "elastic"}
    assert "two GPUs" in names_lacking(ONE, bench)["elastic"]
    assert names_lacking(TWO, bench) == {}
    assert set(names_lacking(TWO, Bench(tmp_path, None))) == {"examples", "torch examples"}


def test_a_rehearsal_runs_what_virtual_gpus_can_show(tmp_path: Path) -> None:
    lacking = names_lacking(NO_GPU, Bench(tmp_path, tmp_path, virtual="2x4x16GB"))
    assert set(lacking) == {"nvml", "sampling", "estimates", "slices", "mps"}
