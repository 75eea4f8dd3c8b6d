"""Golden files are up to date and whole, and a change of a text touches no structure."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from grus.controlplane.reconciler.apply_engine_calls import Control
from grus.model.jobs import Job
from grus.model.worker_reports import report_lines
from grus.server.runtime import device_metrics
from grus.simulator.recorded.decision_recorder import lines
from tests.golden import files, metrics, record, replayed, sources, stored, workers, write
from tests.golden.complete import complete, defaults_left
from tests.golden.files import COMMAND, Golden, as_json, without_words, words
from tests.golden.goldens import GOLDENS


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_a_golden_file_is_what_the_code_says(golden: Golden) -> None:
    difference = golden.difference()
    assert not difference, f"\n{difference}"


def test_every_file_in_the_folders_is_made() -> None:
    there = [path for name in (files.STRUCTURE, files.TEXTS) for path in (files.FOLDER / name).iterdir()]
    assert sorted(there) == sorted(golden.path for golden in GOLDENS)


def test_a_stale_file_fails_with_the_lines_that_differ_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "FOLDER", tmp_path)
    golden = Golden("kept.txt", lambda: "one\ntwo\n")
    assert "+two" in golden.difference()  # not there at all
    golden.path.write_text("one\n2\n")
    said = golden.difference().splitlines()
    assert {"-2", "+two", f"If this is intended: {COMMAND} kept.txt"} <= set(said)
    golden.path.write_text("one\ntwo\n")
    assert not golden.difference()


def test_the_command_writes_what_it_is_asked_for_and_nothing_that_is_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "FOLDER", tmp_path)
    made = (Golden("texts/a.txt", lambda: "a\n"), Golden("structure/b.txt", lambda: "b\n"))
    monkeypatch.setattr(write, "GOLDENS", made)
    write.main(["texts"])
    assert capsys.readouterr().out == "written: texts/a.txt\n"
    write.main([])
    assert capsys.readouterr().out == "written: structure/b.txt\n"
    with pytest.raises(SystemExit, match="2"):
        write.main(["texts/c.txt"])
    assert "no golden file is called texts/c.txt" in capsys.readouterr().err


# ------------------------------------------------------------------------------------ structure and texts


def test_a_reworded_schema_has_the_same_structure() -> None:
    schema = {"properties": {"title": {"type": "string", "description": "Before.", "title": "Title"}}}
    other = json.loads(json.dumps(schema).replace("Before.", "After."))
    assert without_words(schema) == without_words(other) == {"properties": {"title": {"type": "string"}}}
    assert words(other) == {"properties title description": "After."}


def test_no_structure_holds_a_text_of_the_other_files() -> None:
    """Texts of some length: short ones may be values."""

    def sentences(value: Any) -> Iterator[str]:
        if isinstance(value, dict | list):
            for one in value.values() if isinstance(value, dict) else value:
                yield from sentences(one)
        elif isinstance(value, str) and value.count(" ") > 3:
            yield value

    structure = "".join((files.FOLDER / files.STRUCTURE / name).read_text() for name in _names("structure"))
    for name in _names("texts"):
        if name.endswith(".json"):
            for text in sentences(json.loads((files.FOLDER / files.TEXTS / name).read_text())):
                assert json.dumps(text, ensure_ascii=False) not in structure, text


def _names(folder: str) -> list[str]:
    return [one.path.name for one in GOLDENS if one.name.startswith(folder)]


def test_what_is_written_is_json_and_short_values_share_a_line() -> None:
    value = {"b": [1, {"x": None}], "a": {"long": ["word " * 9] * 3}, "ü": "ü"}
    text = as_json(value)
    assert json.loads(text) == value
    assert ' "b": [1, {"x": null}],\n' in text
    assert text.splitlines()[1] == ' "a": {'


# --------------------------------------------------------------------------------------------- complete


@pytest.mark.parametrize("kind", [*stored.CODECS, Control], ids=lambda kind: kind.__name__)
def test_every_field_of_a_complete_value_is_set_to_another_value_than_its_default(kind: type) -> None:
    assert not list(defaults_left(complete(kind)))


def test_a_field_that_holds_its_default_is_found_at_any_depth() -> None:
    job = complete(Job)
    seat = replace(job.seats[0], tries=0)
    poorer = replace(job, seats=(seat,), exit=None, spec=replace(job.spec, env=()))
    assert sorted(defaults_left(poorer)) == [".exit", ".seats.tries", ".spec.env"]


def test_a_new_or_renamed_field_changes_the_stored_value_and_no_other_one() -> None:
    @dataclass(frozen=True)
    class Before:
        name: str = ""
        size: int = 3

    @dataclass(frozen=True)
    class After:
        size: int = 3
        title: str = ""
        new: float | None = None

    before, after = vars(complete(Before)), vars(complete(After))
    assert before["size"] == after["size"]
    assert set(after) - set(before) == {"title", "new"}
    assert not list(defaults_left(complete(After)))


def test_the_line_of_a_report_says_all_that_can_be_read() -> None:
    """`new` is about the first step, which this line is beyond."""

    def left(said: Any, nothing: Any) -> list[str]:
        return [
            name
            for name in said._fields
            if getattr(said, name) == getattr(nothing, name) and name not in ("new", "diverged")
        ]

    said, nothing = report_lines.read(json.dumps(workers.LINE)), report_lines.read("")
    assert not left(said, nothing)
    assert not left(said.word, nothing.word)
    assert said.place is not None
    assert None not in said.place
    whole = {f"elastic.{key}" for key in workers.LINE["elastic"]} | {"at", "figures", "saved_at"}
    assert set(workers.report()["read"]) >= whole


def test_every_table_of_metrics_is_in_the_golden_file() -> None:
    tables = (
        ("device", device_metrics.OF_DEVICES),
        ("queue", device_metrics.OF_HOSTS),
        ("node", device_metrics.OF_HOSTS),
        ("pool", device_metrics.OF_THE_POOL),
    )
    named = {f"grus_{of}_{name}" for of, table in tables for name, _ in table.values()}
    assert named <= set(metrics.structure())


# ---------------------------------------------------------------------------------------------- replay


def test_the_recorded_run_is_decided_as_it_was_and_has_every_kind_of_action() -> None:
    compared, decided = replayed.again()
    assert compared.difference is None
    assert compared.carried == compared.actions
    does = {action.does for asked in decided for action in asked.actions}
    assert does >= {"start", "pause", "resize", "requeue"}


def test_another_decision_about_the_recorded_run_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    text = record.FILE.read_bytes().replace(b'"devices":["n1-3"]', b'"devices":["n1-2"]')
    monkeypatch.setattr(replayed, "FILE", _Text(text))
    replayed.again.cache_clear()
    try:
        assert replayed.again()[0].difference is not None
        assert "equal False" in replayed.structure()
    finally:
        replayed.again.cache_clear()


def test_a_reworded_reason_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    text = record.FILE.read_bytes().replace(b"over quota on idle GPUs", b"above its quota")
    assert text != record.FILE.read_bytes()
    before = replayed.structure()
    monkeypatch.setattr(replayed, "FILE", _Text(text))
    replayed.again.cache_clear()
    try:
        assert replayed.structure() == before
    finally:
        replayed.again.cache_clear()


class _Text:
    """A file with this content."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read_bytes(self) -> bytes:
        return self._content


def test_a_run_recorded_now_can_be_replayed_and_its_events_are_in_the_golden_file() -> None:
    kinds: set[str] = set()
    made = record.run(lambda event: kinds.add(event.kind))
    assert [number for number, _ in lines(made)] == list(range(1, len(made) + 1))
    assert {"submitted", "starting", "resized"} <= kinds <= set(sources.events())
