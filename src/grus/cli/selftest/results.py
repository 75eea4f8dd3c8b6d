"""Results of the checks, and the one page of them to attach to a report. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from grus.cli.selftest.host_inventory import Machine

PASSED_CODE, FAILED_CODE, INCOMPLETE_CODE = 0, 1, 7
"""Exit codes: everything passed; a check failed; none failed, but some could not run here."""


class CheckState(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_TESTED = "not tested"


class CheckFailed(Exception):
    """A check found something wrong; the text says what."""


@dataclass(frozen=True, slots=True)
class SelftestCheck:
    """One check of the self-test. `lacks` says why it cannot run on a machine; empty if it can."""

    name: str
    shows: str
    lacks: Callable[[Machine], str]
    run: Callable[[], str]
    """Returns what it found; raises `CheckFailed`."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    check: str
    state: CheckState
    text: str
    seconds: float = 0.0

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def tried(check: SelftestCheck, machine: Machine, clock: Callable[[], float]) -> CheckResult:
    """Run one check, or say why it cannot run here. An error of the check itself is its failure."""
    if lacks := check.lacks(machine):
        return CheckResult(check.name, CheckState.NOT_TESTED, f"{check.shows}: {lacks}")
    begin = clock()
    try:
        text, state = check.run(), CheckState.PASSED
    except CheckFailed as error:
        text, state = str(error), CheckState.FAILED
    except Exception as error:  # noqa: BLE001 - a defect in one check must not hide the other results
        text, state = f"{type(error).__name__}: {error}", CheckState.FAILED
    return CheckResult(check.name, state, text, clock() - begin)


def exit_code(results: Sequence[CheckResult]) -> int:
    states = {result.state for result in results}
    if CheckState.FAILED in states:
        return FAILED_CODE
    return INCOMPLETE_CODE if CheckState.NOT_TESTED in states else PASSED_CODE


def summary(results: Sequence[CheckResult]) -> str:
    counts = {state: sum(result.state is state for result in results) for state in CheckState}
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count) + "."


def page(machine: Machine, results: Sequence[CheckResult], day: str, rehearsed: bool = False) -> str:
    """One page in Markdown: versions, results, and what could not be tested."""
    lines = [f"# grus selftest, {day}", "", summary(results), ""]
    if rehearsed:
        lines += ["Rehearsed on virtual GPUs: this tests the command, not GPUs.", ""]
    lines += ["| version | |", "| --- | --- |"]
    lines += [f"| {name} | {version} |" for name, version in machine.versions()]
    done = [one for one in results if one.state is not CheckState.NOT_TESTED]
    if done:
        lines += ["", "| check | result | seconds | found |", "| --- | --- | --- | --- |"]
    lines += [f"| {one.check} | {one.state} | {one.seconds:.1f} | {_cell(one.text)} |" for one in done]
    left = [one for one in results if one.state is CheckState.NOT_TESTED]
    if left:
        lines += ["", "Not tested here:", "", *(f"- {one.check}: {one.text}" for one in left)]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
