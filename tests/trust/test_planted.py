"""The planted bugs are what they say, and the suite catches some of them while one waits."""

import json
import re
import subprocess
import sys

import pytest

from grus.store import rules
from tests.trust.bugs.planting import Bug, Swap
from tests.trust.planted import BUGS, judged
from tests.trust.proving import ROOT, SIMULATION, Attempt, Outcome, Verdict

REPORT = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+|CVE-\d{4}-\d{4,}")
CHEAP = ("partial-gang", "no-fence", "token-in-clear")


def test_there_are_at_least_thirty_each_with_a_name_and_a_public_report_of_its_own() -> None:
    assert len(BUGS) >= 30
    assert len({bug.name for bug in BUGS}) == len({bug.report for bug in BUGS}) == len(BUGS)
    for bug in BUGS:
        assert REPORT.fullmatch(bug.report), bug.report
        assert bug.what


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_plant_changes_what_is_there_and_leaves_nothing_behind(bug: Bug) -> None:
    before = [swap.original() for swap in bug.swaps]
    with bug.planted():
        assert all(swap.original() is not old for swap, old in zip(bug.swaps, before, strict=True))
    assert [swap.original() for swap in bug.swaps] == before


def test_a_plant_of_what_is_not_there_any_more_fails() -> None:
    gone = Bug("gone", "", "", (Swap(rules, "check_luck", lambda luck: luck),), ())
    with pytest.raises(AttributeError, match="check_luck"), gone.planted():
        pass


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_every_proof_that_is_a_test_is_there(bug: Bug) -> None:
    for proof in bug.proofs:
        if not proof.startswith(SIMULATION):
            file, _, test = proof.partition("::")
            assert (ROOT / file).exists()
            name = test.partition("[")[0].rpartition("::")[2]
            contracts = "".join(path.read_text() for path in (ROOT / "tests/contracts").glob("*.py"))
            assert name in (ROOT / file).read_text() + contracts


def test_only_a_proof_that_breaks_with_the_bug_and_holds_without_it_has_caught_it() -> None:
    bug = BUGS[0]

    def caught(verdict: Verdict, *alarms: str) -> object:
        outcome = Outcome(Attempt("a", bug), verdict, "", 1.0)
        return judged([bug], {bug.name: [outcome]}, dict.fromkeys(alarms, ""))["caught"]

    assert caught(Verdict.BROKEN) == 1
    assert caught(Verdict.BROKEN, "a") == 0
    assert (caught(Verdict.HELD), caught(Verdict.NOT_RUN)) == (0, 0)


def test_three_of_them_are_caught() -> None:
    """`python -m tests.trust.planted` is the same with all."""
    asked = [word for name in CHEAP for word in ("--only", name)]
    command = [sys.executable, "-m", "tests.trust.planted", *asked]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    figures = json.loads(ran.stdout.splitlines()[-1])
    assert (ran.returncode, figures["planted"], figures["caught"]) == (0, 3, 3), ran.stderr
    assert figures["caught_by_simulation"] == 2
