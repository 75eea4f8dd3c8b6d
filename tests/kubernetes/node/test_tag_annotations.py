"""Tags as annotations: what is written can be read, and is written when something has changed only."""

from dataclasses import replace

import pytest

from grus.kubernetes.names import GPU_TAG, TAG
from grus.kubernetes.node import tag_annotations
from grus.model.activity_labels import Tag, WorkloadKind

NOW = 1_000_000.0
TRAINS = Tag(
    kind=WorkloadKind.TRAINING,
    at=NOW - 60,
    expires=NOW + 30,
    confidence=0.91,
    period=12.5,
    boundary=NOW - 3,
    utilisation=0.82,
    peak_memory=7 << 30,
    note="epochs of 12.5 s in its utilisation",
)


def test_what_is_written_is_read_again() -> None:
    for tag in (
        TRAINS,
        replace(TRAINS, hung_since=NOW - 5),
        Tag(kind=WorkloadKind.UNKNOWN, at=NOW, expires=NOW + 1),
    ):
        assert tag_annotations.read(tag_annotations.written(tag)) == tag


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"kind": "training"}',
        '{"kind": "dance", "at": "x", "expires": "y"}',
        "[" * 99_999,
    ],
)
def test_what_nobody_of_us_wrote_says_nothing(text: str) -> None:
    assert tag_annotations.read(text) is None
    assert tag_annotations.device_of(text) == ""


def test_figures_that_are_none_are_not_believed() -> None:
    text = tag_annotations.written(TRAINS).replace("12.5", "1e999")
    assert tag_annotations.read(text) is None


def present(tag: Tag, at: float = NOW) -> dict[str, str]:
    return {TAG: tag_annotations.written(replace(tag, expires=at + tag_annotations.LIFE))}


def test_nothing_is_written_while_nothing_changes() -> None:
    assert tag_annotations.changes(present(TRAINS), {TAG: TRAINS}, NOW + 1) == {}


@pytest.mark.parametrize(
    "same",
    [
        replace(TRAINS, utilisation=0.9),
        replace(TRAINS, period=12.6),
        replace(TRAINS, boundary=NOW - 3 + 4 * 12.5),
        replace(TRAINS, boundary=NOW - 3 + 0.4),
        replace(TRAINS, peak_memory=(7 << 30) + (100 << 20)),
        replace(TRAINS, expires=NOW + 99, confidence=0.7),
    ],
)
def test_a_figure_that_wavers_is_not_told_again(same: Tag) -> None:
    assert tag_annotations.changes(present(TRAINS), {TAG: same}, NOW + 1) == {}


@pytest.mark.parametrize(
    "other",
    [
        replace(TRAINS, kind=WorkloadKind.IDLE),
        replace(TRAINS, period=20.0),
        replace(TRAINS, period=None, boundary=None),
        replace(TRAINS, boundary=NOW - 3 + 6),
        replace(TRAINS, utilisation=0.5),
        replace(TRAINS, peak_memory=9 << 30),
        replace(TRAINS, hung_since=NOW),
    ],
)
def test_what_has_changed_is_written_once(other: Tag) -> None:
    before = present(TRAINS)
    notes = tag_annotations.changes(before, {TAG: other}, NOW + 1)
    assert notes.keys() == {TAG}
    after = {**before, **{name: text for name, text in notes.items() if text is not None}}
    assert tag_annotations.changes(after, {TAG: other}, NOW + 2) == {}


def test_a_tag_is_renewed_before_it_expires() -> None:
    assert tag_annotations.changes(present(TRAINS), {TAG: TRAINS}, NOW + tag_annotations.LIFE * 0.49) == {}
    notes = tag_annotations.changes(present(TRAINS), {TAG: TRAINS}, NOW + tag_annotations.LIFE * 0.51)
    renewed = tag_annotations.read(notes[TAG] or "")
    assert renewed is not None
    assert renewed.expires == pytest.approx(NOW + tag_annotations.LIFE * 1.51)


def test_what_is_no_longer_true_is_taken_away_and_nothing_of_others() -> None:
    there = {
        f"{GPU_TAG}0": "{}",
        f"{GPU_TAG}1-7": "{}",
        TAG: "{}",
        f"{GPU_TAG}memory": "ours? no",
        "grus.dev/job": "j1",
        "example.com/gpu-0": "theirs",
    }
    assert tag_annotations.changes(there, {}, NOW) == {f"{GPU_TAG}0": None, f"{GPU_TAG}1-7": None, TAG: None}


def test_a_nodes_tag_says_whose_it_is() -> None:
    notes = tag_annotations.changes({}, {f"{GPU_TAG}0": TRAINS}, NOW, {f"{GPU_TAG}0": "GPU-1234"})
    assert tag_annotations.device_of(notes[f"{GPU_TAG}0"] or "") == "GPU-1234"
