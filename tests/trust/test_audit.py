"""An audit that could not be made is never one that found nothing."""

import json
from pathlib import Path

import pytest

from tests.trust import audit


def unable(_: str) -> Path:
    raise RuntimeError("no network")


def test_all_pins_are_counted() -> None:
    assert audit.pinned("# a\nfoo==1.0\nbar-baz==2.1 ; x\nqux>=3\n") == {"foo": "1.0", "bar-baz": "2.1"}
    assert len(audit.pinned(audit.CONSTRAINTS.read_text())) > 50


def test_without_a_tool_or_a_source_it_is_not_audited_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "python_with", unable)
    monkeypatch.setattr(audit, "audit_newest", unable)
    found = audit.audited()
    assert (found["audited"], found["findings"]) == (0, None)
    assert "no network" in found["not_audited"]
    with pytest.raises(RuntimeError, match="cannot connect"):
        audit.told_by("", "Traceback\ncannot connect", "osv")
    with pytest.raises(RuntimeError, match="no package was looked up"):
        audit.told_by(json.dumps({"dependencies": [{"name": "a", "skip_reason": "x"}]}), "", "osv")


def test_what_a_source_knows_is_counted() -> None:
    said = {
        "dependencies": [{"name": "a", "vulns": [{"id": "X-1"}, {"id": "X-2"}]}, {"name": "b", "vulns": []}]
    }
    found = audit.told_by(json.dumps(said), "", "osv")
    assert (found["audited"], found["findings"], found["source"]) == (2, 2, "osv")
    assert found["weak"] == {"a": ["X-1", "X-2"]}


def index(name: str) -> audit.Newest:
    known = {
        audit.WEAK: ("2.6.1", ["X-0"]),
        "weak": ("3.0", ["X-1"]),
        "fine": ("1.0", []),
        "old": ("2.0", []),
    }
    return audit.Newest(*known[name])


def test_the_package_index_knows_newest_releases_and_older_pins_are_named_as_not_audited() -> None:
    found = audit.audit_newest({"weak": "3.0", "fine": "1.0", "old": "1.0"}, index)
    assert (found["audited"], found["findings"], found["weak"]) == (2, 1, {"weak": ["X-1"]})
    assert (found["not_newest"], found["source"]) == (["old"], audit.INDEX)
    with pytest.raises(RuntimeError, match="no pin is the newest"):
        audit.audit_newest({"old": "1.0"}, index)


def test_an_index_that_knows_no_weakness_of_what_is_weak_is_not_believed() -> None:
    with pytest.raises(RuntimeError, match="tells no weaknesses"):
        audit.audit_newest({"fine": "1.0"}, lambda _: audit.Newest("1.0", []))
