"""Requests that wait are computed together, and nobody's mistake is another's."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
import torch
from torch import Tensor

from grus.serving.dynamic_batching import MOST_WAITING, Batcher, Busy


class Model:
    """Doubles what it gets; waits at a gate; cannot bear 13."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.sizes: list[int] = []

    def __call__(self, samples: Tensor) -> Tensor:
        self.entered.set()
        assert self.gate.wait(300)
        self.sizes.append(len(samples))
        if 13 in samples:
            raise ValueError("unlucky")
        return samples * 2


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def batcher(model: Model) -> Iterator[Batcher]:
    found = Batcher(model, most=4)
    yield found
    model.gate.set()
    found.close()


def ask(batcher: Batcher, *numbers: float) -> "Future[Any]":
    return batcher.submit(torch.tensor([[number] for number in numbers]))


def occupied(batcher: Batcher, model: Model) -> "Future[Any]":
    """The model works on a first request, so that the next ones wait."""
    first = ask(batcher, 1.0)
    assert model.entered.wait(300)
    return first


def test_those_who_wait_are_computed_together_up_to_the_limit(batcher: Batcher, model: Model) -> None:
    first = occupied(batcher, model)
    waiting = [ask(batcher, float(number)) for number in range(2, 9)]
    model.gate.set()
    assert [one.result(30).tolist() for one in [first, *waiting]] == [[[2.0 * n]] for n in range(1, 9)]
    assert model.sizes == [1, 4, 3]


def test_only_samples_alike_go_together(batcher: Batcher, model: Model) -> None:
    occupied(batcher, model)
    flat, wide = ask(batcher, 2.0), batcher.submit(torch.ones(1, 3))
    whole = batcher.submit(torch.ones(1, 3, dtype=torch.int64))
    model.gate.set()
    assert [one.result(30).shape for one in (flat, wide, whole)] == [(1, 1), (1, 3), (1, 3)]
    assert model.sizes == [1, 1, 1, 1]


def test_a_mistake_fails_its_own_request_only(batcher: Batcher, model: Model) -> None:
    occupied(batcher, model)
    good, bad, also_good = ask(batcher, 2.0), ask(batcher, 13.0), ask(batcher, 3.0)
    model.gate.set()
    assert good.result(30).tolist() == [[4.0]]
    assert also_good.result(30).tolist() == [[6.0]]
    with pytest.raises(ValueError, match="unlucky"):
        bad.result(30)


def test_a_request_above_the_limit_is_computed_in_pieces(batcher: Batcher, model: Model) -> None:
    model.gate.set()
    assert ask(batcher, *map(float, range(20, 30))).result(30).tolist() == [[2.0 * n] for n in range(20, 30)]
    assert model.sizes == [4, 4, 2]


def test_a_large_request_holds_up_nobody_else(batcher: Batcher, model: Model) -> None:
    occupied(batcher, model)
    large, small = ask(batcher, *map(float, range(20, 32))), ask(batcher, 2.0)
    order: list[str] = []
    large.add_done_callback(lambda _: order.append("large"))
    small.add_done_callback(lambda _: order.append("small"))
    model.gate.set()
    assert large.result(30).tolist() == [[2.0 * n] for n in range(20, 32)]
    assert order == ["small", "large"]
    assert model.sizes == [1, 4, 1, 4, 4]


def test_the_rest_of_a_large_request_that_was_given_up_is_not_computed(
    batcher: Batcher, model: Model
) -> None:
    large = ask(batcher, *map(float, range(20, 32)))
    assert model.entered.wait(300)
    assert large.cancel()
    model.gate.set()
    assert ask(batcher, 2.0).result(30).tolist() == [[4.0]]
    assert model.sizes == [4, 1]


def test_a_mistake_in_a_later_piece_fails_the_request(batcher: Batcher, model: Model) -> None:
    model.gate.set()
    with pytest.raises(ValueError, match="unlucky"):
        ask(batcher, *map(float, range(5, 15))).result(30)
    assert ask(batcher, 2.0).result(30).tolist() == [[4.0]]


def test_a_request_that_was_given_up_is_not_computed(batcher: Batcher, model: Model) -> None:
    occupied(batcher, model)
    given_up, other = ask(batcher, 2.0), ask(batcher, 3.0)
    assert given_up.cancel()
    model.gate.set()
    assert other.result(30).tolist() == [[6.0]]
    assert model.sizes == [1, 1]


def test_whoever_comes_when_too_many_wait_is_sent_away(batcher: Batcher, model: Model) -> None:
    occupied(batcher, model)
    for _ in range(MOST_WAITING):
        ask(batcher, 2.0)
    with pytest.raises(Busy):
        ask(batcher, 2.0)


def test_what_was_asked_before_the_end_is_answered() -> None:
    model = Model()
    batcher = Batcher(model, most=4)
    first = occupied(batcher, model)
    second = ask(batcher, 2.0)
    closing = threading.Thread(target=batcher.close)
    closing.start()
    model.gate.set()
    closing.join(300)
    assert (first.result(0).tolist(), second.result(0).tolist()) == ([[2.0]], [[4.0]])
    with pytest.raises(Busy):
        ask(batcher, 3.0)


def test_a_model_without_a_row_a_sample_answers_one_by_one() -> None:
    batcher = Batcher(lambda samples: samples.sum(), most=8)
    try:
        asked = [batcher.submit(torch.ones(2, 1)) for _ in range(5)]
        assert [one.result(30).item() for one in asked] == [2.0] * 5
    finally:
        batcher.close()
