"""Tags that do not flap."""

from dataclasses import replace

import pytest

from grus.model.activity_labels import Tag, TrainingStage, WorkloadKind
from grus.telemetry.tag_debounce import FIGURES, LASTS, StableTag

LIFE = 600.0
TRAINS = Tag(
    kind=WorkloadKind.TRAINING,
    at=100.0,
    expires=0.0,
    confidence=0.9,
    period=20.0,
    boundary=100.0,
    stage=TrainingStage.TRAINING,
    utilisation=0.8,
    peak_memory=1000,
    note="it reports steps",
)
IDLE = Tag(kind=WorkloadKind.IDLE, at=130.0, expires=0.0, confidence=0.9, utilisation=0.0)


@pytest.fixture
def settled() -> StableTag:
    one = StableTag(LIFE)
    one.offer(TRAINS, 100.0)
    return one


def test_what_is_first_recognised_is_told_at_once_and_expires_later() -> None:
    assert StableTag(LIFE).offer(TRAINS, 100.0) == replace(TRAINS, expires=700.0)


def test_another_kind_is_told_when_it_has_lasted(settled: StableTag) -> None:
    assert settled.offer(IDLE, 130.0).kind is WorkloadKind.TRAINING
    told = settled.offer(IDLE, 130.0 + LASTS)
    assert (told.kind, told.at) == (WorkloadKind.IDLE, 130.0)


def test_another_kind_that_does_not_last_is_never_told(settled: StableTag) -> None:
    for turn in range(20):
        told = settled.offer(IDLE if turn % 2 else replace(TRAINS, at=100.0 + turn), 101.0 + turn)
        assert told.kind is WorkloadKind.TRAINING


def test_who_was_unknown_is_told_at_once() -> None:
    one = StableTag(LIFE)
    one.offer(Tag(kind=WorkloadKind.UNKNOWN, at=100.0, expires=0.0), 100.0)
    assert one.offer(TRAINS, 101.0).kind is WorkloadKind.TRAINING


def test_what_has_settled_before_is_told_at_once(settled: StableTag) -> None:
    assert settled.offer(IDLE, 130.0, firm=True).kind is WorkloadKind.IDLE


def test_figures_that_hardly_move_leave_the_tag_as_it_is(settled: StableTag) -> None:
    before = settled.told
    moved = replace(
        TRAINS, at=150.0, confidence=0.95, period=20.4, boundary=141.0, utilisation=0.85, peak_memory=1020
    )
    assert settled.offer(moved, 100.0 + FIGURES) is before


@pytest.mark.parametrize(
    "moved",
    [
        replace(TRAINS, period=22.0),
        replace(TRAINS, boundary=147.0),
        replace(TRAINS, confidence=0.5),
        replace(TRAINS, utilisation=0.5),
        replace(TRAINS, peak_memory=2000),
    ],
    ids=["period", "boundary", "confidence", "utilisation", "memory"],
)
def test_figures_that_moved_are_told_but_not_every_second_and_since_when_stays(
    settled: StableTag, moved: Tag
) -> None:
    before = settled.told
    moved = replace(moved, at=110.0)
    assert settled.offer(moved, 110.0) is before
    told = settled.offer(moved, 100.0 + FIGURES)
    assert told == replace(moved, at=100.0, expires=told.expires)


def test_new_words_and_a_rhythm_that_comes_or_goes_are_told_at_once(settled: StableTag) -> None:
    assert settled.offer(replace(TRAINS, note="a straggler"), 101.0).note == "a straggler"
    assert settled.offer(replace(TRAINS, note="a straggler", period=None), 102.0).period is None


def test_a_hang_is_told_with_its_first_moment(settled: StableTag) -> None:
    hangs = replace(TRAINS, hung_since=110.0)
    settled.offer(hangs, 140.0)
    assert settled.offer(hangs, 140.0 + LASTS).hung_since == 110.0
    assert settled.offer(replace(hangs, hung_since=112.0), 200.0).hung_since == 110.0


def test_an_unchanged_tag_is_renewed_when_half_its_life_is_over(settled: StableTag) -> None:
    assert settled.offer(TRAINS, 100.0 + LIFE / 2 - 1).expires == 700.0
    assert settled.offer(TRAINS, 100.0 + LIFE / 2 + 1).expires == 100.0 + 1.5 * LIFE + 1
