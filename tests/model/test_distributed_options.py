"""Strategies are words: which there are, how they are written, and which go together."""

from itertools import combinations

import pytest

from grus.model.distributed_options import (
    COMPRESSING,
    HOLDING,
    Strategy,
    clashes,
    holding,
    ordered,
    parse,
    resizes,
    spell,
    together,
)
from grus.model.errors import BadInput


def test_words_are_read_in_any_order_and_written_in_one() -> None:
    assert parse("checkpoint, BF16 +fsdp checkpoint") == (Strategy.FSDP, Strategy.BF16, Strategy.CHECKPOINT)
    assert spell(parse("checkpoint bf16")) == "bf16 checkpoint"


def test_no_words_are_plain() -> None:
    assert parse("  ") == ()
    assert spell(()) == "plain"


def test_every_mistake_is_named() -> None:
    with pytest.raises(BadInput) as told:
        parse("fsdp ddp fp32 zero9")
    assert [mistake.value for mistake in told.value.mistakes] == ["fp32", "zero9", ""]
    assert "fsdp" in told.value.mistakes[0].rule
    assert "ddp and fsdp" in told.value.mistakes[2].rule


@pytest.mark.parametrize("kind", [HOLDING, COMPRESSING])
def test_no_two_of_a_kind_go_together(kind: frozenset[Strategy]) -> None:
    for pair in combinations(kind, 2):
        assert clashes(pair)


def test_each_strategy_goes_alone_and_says_what_it_does() -> None:
    for one in Strategy:
        assert not clashes([one])
        assert one.sentence


def test_a_clash_says_what_to_write_instead() -> None:
    (told,) = clashes([Strategy.FSDP, Strategy.POWERSGD])
    assert "fsdp and powersgd" in told
    assert "say ddp" in told


def test_several_workers_without_a_word_sum_their_gradients() -> None:
    assert holding((), workers=1) is Strategy.PLAIN
    assert holding((Strategy.BF16,), workers=2) is Strategy.DDP
    assert holding((Strategy.FSDP, Strategy.BF16), workers=2) is Strategy.FSDP


def test_what_no_worker_holds_whole_is_started_again_for_another_size() -> None:
    """What is held whole by each worker is resized as it runs."""
    assert [one for one in Strategy if not resizes([one])] == [
        Strategy.ZERO1,
        Strategy.ZERO2,
        Strategy.FSDP,
        Strategy.SPLIT,
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_compared_goes_together_and_is_there_once(workers: int) -> None:
    compared = together(workers)
    assert len(set(compared)) == len(compared)
    for one in compared:
        assert not clashes(one)
        assert ordered(one) == one
