"""The table says what was shown, and calls nothing kept that is not."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.trust import pages, table
from tests.trust.counting import standing
from tests.trust.ledger import Ledger, Run
from tests.trust.pages import Line
from tests.trust.parts import FAILED, PARTS, PROMISES, Part, Promise, all_of, at_most, none

CUTS = Part("cuts", "tests.trust.x", "x {next} {jobs}", "cuts", 100, seen=("{kept} kept", "{a} of {b}"))
POWER = replace(CUTS, name="power")
"""With the promises of the real one."""
LOST = Promise("lost", "cuts", "lost", "0", none)
NOTHING = table.Ran({}, 0.0)


def verdict(promise: Promise, figures: dict[str, object], trouble: str = "") -> str:
    return table.judged(promise, CUTS, table.Ran(figures, 1.0, trouble)).verdict


def a_run(state: str = "new", **figures: float) -> Run:
    return Run("cuts", state, "2026-11-17T10:00:00Z", figures)


def line(*runs: Run, ran: table.Ran = NOTHING) -> Line:
    return table.counted(LOST, standing(CUTS, runs, "new", [LOST]), ran)


def test_every_promise_belongs_to_a_part_and_every_part_has_one() -> None:
    assert {promise.part for promise in PROMISES} == {part.name for part in PARTS}
    assert len({promise.claim for promise in PROMISES}) == len(PROMISES)


# ---------------------------------------------------------------------------------------------- one run


def test_a_promise_is_kept_broken_or_not_shown() -> None:
    assert verdict(LOST, {"lost": 0}) == "kept"
    assert verdict(LOST, {"lost": 1}) == "broken"
    assert verdict(LOST, {}) == "not run"
    assert verdict(LOST, {}, "it ended with 1 and told no figures") == "it ended with 1 and told no figures"
    assert verdict(LOST, {"lost": None, "not_audited": "no source answers"}) == "not audited"


def test_what_must_be_whole_is_held_against_the_whole() -> None:
    caught = Promise("caught", "cuts", "caught", "100 %", all_of("planted"))
    assert verdict(caught, {"caught": 30, "planted": 30}) == "kept"
    assert verdict(caught, {"caught": 29, "planted": 30}) == "broken"
    assert verdict(caught, {"caught": 0, "planted": 0}) == "broken"
    assert verdict(Promise("slow", "cuts", "p99_ms", "≤ 100", at_most(100)), {"p99_ms": 100.5}) == "broken"


def test_what_went_wrong_in_words_counts_by_its_number() -> None:
    assert verdict(LOST, {"lost": []}) == "kept"
    assert verdict(LOST, {"lost": ["j1", "j2"], FAILED: 1}) == "broken"
    assert table.judged(LOST, CUTS, table.Ran({"lost": ["j1", "j2"]}, 1.0)).value == 2


def test_a_proof_that_fails_by_something_that_has_no_line_keeps_nothing() -> None:
    assert verdict(LOST, {"lost": 0, FAILED: 1}) == "its proof ended with 1"
    assert verdict(LOST, {"lost": 1, FAILED: 1}) == "broken"
    here = line(a_run(cuts=50, lost=0, ended_with=1), a_run(cuts=100, lost=0))
    assert (here.verdict, here.tried) == ("its proof ended with 1", "0 of 100 cuts")


def test_the_exit_code_of_a_program_is_among_its_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "ROOT", tmp_path)
    for code in (0, 3):
        (tmp_path / f"proof{code}.py").write_text(f"print('{{\"lost\": 0}}'); raise SystemExit({code})")
    assert table.run(CUTS, "proof0").figures == {"lost": 0}
    assert table.run(CUTS, "proof3").figures == {"lost": 0, FAILED: 3}


# ---------------------------------------------------------------------------------------------- all runs


def test_what_is_not_whole_is_kept_so_far() -> None:
    assert (line().verdict, line().tried) == ("not run", "0 of 100 cuts")
    some = line(a_run(cuts=60, lost=0))
    assert (some.verdict, some.tried) == ("kept so far", "60 of 100 cuts, all of them on this state")
    assert (some.reached, some.wanted, some.here, some.states) == (60, 100, 60, 1)


def test_a_whole_line_says_how_much_was_tried_on_this_state() -> None:
    old = a_run("old", cuts=1000, lost=0)
    assert (line(old).verdict, line(old).tried) == ("kept", "1,000 cuts, none of them on this state")
    both = line(old, a_run(cuts=31, lost=0))
    assert both.tried == "1,031 cuts, 31 of them on this state"
    assert (both.here, both.states) == (31, 2)


def test_a_broken_run_is_told_and_never_hidden_by_others() -> None:
    here = line(a_run(cuts=50, lost=2), a_run(cuts=100, lost=0))
    assert (here.verdict, here.value, here.tried) == ("broken", 2, "0 of 100 cuts")
    assert line(a_run("old", cuts=50, lost=2)).verdict == "not run since one broke"
    assert line(a_run("old", cuts=50, lost=2), a_run(cuts=5, lost=0)).verdict == "kept so far"


def test_a_run_that_failed_now_is_told_whatever_was_shown_before() -> None:
    failed = table.Ran({}, 1.0, "it ended with 1 and told no figures")
    assert line(a_run(cuts=100, lost=0), ran=failed).verdict == "it ended with 1 and told no figures"


def test_further_figures_are_told_where_a_program_told_them() -> None:
    assert line(a_run(cuts=1, lost=0, kept=12345, a=1)).seen == "12,345 kept"
    assert line(a_run(cuts=1, lost=0, a=1, b=2)).seen == "1 of 2"


# ---------------------------------------------------------------------------------------------- running


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "trust.json")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Programs that tell these figures, one after the other; the commands that were run."""

    def programs(*figures: dict[str, object]) -> list[str]:
        commands: list[str] = []
        rest = list(figures)

        def run(_: Part, words: str) -> table.Ran:
            commands.append(words)
            return table.Ran({"corrupt": 0, **rest.pop(0)}, 0.0)

        monkeypatch.setattr(table, "run", run)
        monkeypatch.setattr(table, "state_of", lambda _: "new")
        return commands

    return programs


def long_of(ledger: Ledger, minutes: float = 0.0, first: int = 1) -> table.Ran:
    return table.long_of(POWER, ledger, minutes, first, jobs=2)


def test_a_long_part_is_run_once_more_and_enters_the_ledger(
    ledger: Ledger, told: Callable[..., list[str]]
) -> None:
    commands = told({"cuts": 60, "to": 60, "lost": 0}, {"cuts": 60, "to": 120, "lost": 0})
    long_of(ledger)
    assert [run.figures["cuts"] for run in ledger.runs()] == [60]
    long_of(ledger)
    assert commands == ["x 1 2", "x 61 2"]
    long_of(ledger)  # whole, so that nothing is run
    assert [run.seeds for run in ledger.runs()] == [(1, 60), (61, 120)]


def test_with_minutes_it_goes_on_until_it_is_whole(ledger: Ledger, told: Callable[..., list[str]]) -> None:
    commands = told(*({"cuts": 30, "to": 1030 + 30 * turn, "lost": 0} for turn in range(9)))
    long_of(ledger, minutes=10, first=1001)
    assert commands == ["x 1001 2", "x 1031 2", "x 1061 2", "x 1091 2"]


def test_it_does_not_go_on_after_a_promise_was_broken(ledger: Ledger, told: Callable[..., list[str]]) -> None:
    commands = told({"cuts": 30, "lost": 0}, {"cuts": 30, "lost": 1})
    long_of(ledger, minutes=10)
    long_of(ledger, minutes=10)  # this state is broken: nothing can be added
    assert (len(commands), [run.figures["lost"] for run in ledger.runs()]) == (2, [0, 1])


def test_a_run_that_tried_nothing_is_not_entered(ledger: Ledger, told: Callable[..., list[str]]) -> None:
    told({"cuts": 0, "lost": None, "not_audited": "no source"})
    ran = long_of(ledger, minutes=10)
    assert ledger.runs() == []
    assert line(ran=ran).verdict == "not audited"


def test_one_that_failed_before_it_tried_anything_breaks_no_promise_and_keeps_none(
    ledger: Ledger, told: Callable[..., list[str]]
) -> None:
    told({"cuts": 0, "corrupt": None, FAILED: 1, "not_fuzzed": "no network"})
    ran = long_of(ledger, minutes=10)
    assert ledger.runs() == []
    assert line(a_run(cuts=100, lost=0), ran=ran).verdict == "its proof ended with 1 and had tried nothing"


def test_a_broken_run_that_told_only_some_of_its_figures_can_be_told() -> None:
    run = Run("power", "new", "2026-11-17T10:00:00Z", {"cuts": 7, FAILED: 1})
    assert "acknowledged writes lost by power cuts: –" in pages.in_words(run)


def test_a_program_without_figures_is_named_with_its_exit_code(capfd: pytest.CaptureFixture[str]) -> None:
    ran = table.run(CUTS, "tests.trust.there_is_no_such_part")
    assert (ran.figures, ran.trouble) == ({}, "it ended with 1 and told no figures")


# ---------------------------------------------------------------------------------------------- telling


def test_the_last_line_is_the_whole_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        table, "run", lambda part, _: table.Ran({"findings": None, "not_audited": "no source"}, 1.0)
    )
    monkeypatch.setattr(sys, "argv", ["table", "--only", "audit"])
    assert table.main() == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    (promise,) = told["promises"].values()
    assert (promise["value"], promise["verdict"]) == (None, "not audited")


def test_what_is_recorded_is_told_without_a_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ledger: Ledger
) -> None:
    ledger.add(Run("orphans", "old", "2026-11-17", {"stops": 600, "processes_left": 0}))
    monkeypatch.setattr(table, "Ledger", lambda: ledger)
    monkeypatch.setattr(sys, "argv", ["table", "--long", "--recorded", "--only", "orphans"])
    assert table.main() == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    (promise,) = told["promises"].values()
    assert promise["verdict"] == "kept so far"
    assert (promise["reached"], promise["wanted"], promise["here"], promise["states"]) == (600, 1000, 0, 1)


@pytest.mark.parametrize("size", ["short", "long"])
def test_the_page_gets_each_table_in_place_of_the_one_before(tmp_path: Path, size: str) -> None:
    page = tmp_path / "page.md"
    places = [f"{begin}\nold {name}\n{end}" for name, (begin, end) in pages.MARKS.items()]
    page.write_text("\n".join(["before", *places, "after\n"]))
    pages.write(size, "the new one", page)
    text = page.read_text()
    other = "long" if size == "short" else "short"
    assert f"{pages.MARKS[size][0]}\nthe new one\n{pages.MARKS[size][1]}" in text
    assert (f"old {size}" in text, f"old {other}" in text) == (False, True)
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")


def test_a_page_without_a_place_for_the_table_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing")
    with pytest.raises(ValueError, match=r"page\.md has no place for the long table"):
        pages.write("long", "x", page)


def test_the_blocks_have_a_row_a_promise() -> None:
    one = Line("lost", 0, "0", "kept", "1,000 kills", 2.0, seen="5 freezes")
    assert "| lost | 0 | 0 | kept | 1,000 kills |" in pages.short_block([one]).splitlines()
    assert "| lost | 0 | 0 | kept | 1,000 kills | 5 freezes |" in pages.long_block([one], [], [])


def test_the_long_block_says_where_and_when_and_what_broke() -> None:
    runs = [
        Run("kills", "old", date, {}, machine)
        for date, machine in (("2026-11-19T01:00:00Z", "4 cores"), ("2026-11-17", "2 cores"))
    ]
    broke = Run("kills", "old", "2026-11-16", {"kills": 5, "lost": 2}, note="mended since")
    block = pages.long_block([], runs, [broke])
    assert "· runs of 2026-11-17 to 2026-11-19 · 2 cores · 4 cores ·" in block
    assert "- 2026-11-16, kills, state old: jobs lost by kill -9 of the server: 2 (mended since)" in block
