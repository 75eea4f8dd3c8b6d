"""The table says what was shown, adds up what several runs have shown, and calls nothing kept that is not."""

import json
import sys
from pathlib import Path

import pytest

from tests.trust import pages, table
from tests.trust.ledger import Ledger, digest_of_sources
from tests.trust.pages import Line
from tests.trust.parts import PARTS, PROMISES, Part, Promise, all_of, at_most, none

A_PART = Part("cuts", "x", "x", "cuts", 100, most=frozenset({"to"}))


def line(promise: Promise, figures: dict[str, object], trouble: str = "") -> str:
    return table.judged(promise, A_PART, table.Ran(figures, 1.0, trouble)).verdict


def test_every_promise_belongs_to_a_part_and_every_part_has_one() -> None:
    assert {promise.part for promise in PROMISES} == {part.name for part in PARTS}
    assert len({promise.claim for promise in PROMISES}) == len(PROMISES)


def test_a_promise_is_kept_broken_or_not_shown() -> None:
    lost = Promise("lost", "cuts", "lost", "0", none)
    assert line(lost, {"lost": 0}) == "kept"
    assert line(lost, {"lost": 1}) == "broken"
    assert line(lost, {}) == "not run"
    assert line(lost, {}, "it ended with 1 and told no figures") == "it ended with 1 and told no figures"
    assert line(lost, {"lost": None, "not_audited": "no source answers"}) == "not audited"


def test_what_must_be_whole_is_held_against_the_whole() -> None:
    caught = Promise("caught", "cuts", "caught", "95 %", all_of("planted", 0.95))
    assert line(caught, {"caught": 29, "planted": 30}) == "kept"
    assert line(caught, {"caught": 28, "planted": 30}) == "broken"
    assert line(caught, {"caught": 0, "planted": 0}) == "broken"
    assert line(Promise("slow", "cuts", "p99_ms", "≤ 100", at_most(100)), {"p99_ms": 100.5}) == "broken"


def test_runs_add_up_and_the_slowest_time_stays(tmp_path: Path) -> None:
    for run in ({"cuts": 50, "to": 50, "worst_s": 2.0}, {"cuts": 50, "to": 100, "worst_s": 1.0}):
        Ledger(tmp_path / "ledger.json").add(A_PART, run)
    ledger = Ledger(tmp_path / "ledger.json")
    assert ledger.figures("cuts") == {"cuts": 100, "to": 100, "worst_s": 2.0}
    assert ledger.next(A_PART) == 101


def test_two_that_add_to_one_ledger_lose_nothing_of_each_other(tmp_path: Path) -> None:
    one, other = Ledger(tmp_path / "ledger.json"), Ledger(tmp_path / "ledger.json")
    one.add(A_PART, {"cuts": 1})
    other.add(Part("kills", "x", "x", "kills", 100), {"kills": 2})
    one.add(A_PART, {"cuts": 3})
    assert (other.figures("cuts"), one.figures("kills")) == ({"cuts": 4}, {"kills": 2})


def test_the_page_gets_the_table_in_place_of_the_one_before(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{pages.BEGIN}\nold\n{pages.END}\nafter\n")
    pages.write([Line("lost", 0, "0", "kept", "1,000 kills", 2.0)], "short", page)
    text = page.read_text()
    assert "| lost | 0 | 0 | kept | 1,000 kills |" in text
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text


def test_a_changed_source_begins_another_ledger(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "one.py").write_text("1")
    before = digest_of_sources(tmp_path)
    (tmp_path / "src" / "one.py").write_text("2")
    assert digest_of_sources(tmp_path) != before


def test_a_whole_part_is_not_run_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.json")
    ledger.add(A_PART, {"cuts": 100})
    assert table.all_of([A_PART], long=True, ledger=ledger)["cuts"].figures == {"cuts": 100}


def test_a_program_without_figures_is_named_with_its_exit_code(capfd: pytest.CaptureFixture[str]) -> None:
    ran = table.run(A_PART, "tests.trust.there_is_no_such_part")
    assert (ran.figures, ran.trouble) == ({}, "it ended with 1 and told no figures")


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
