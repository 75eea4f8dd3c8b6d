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
    assert found == {"audited": 2, "findings": 2, "weak": {"a": ["X-1", "X-2"]}}
