"""Every sample exactly once an epoch, whatever the workers and the batch were on the way."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grus.elastic.data.sample_schedule import (
    Micro,
    Progress,
    after,
    finished,
    micros,
    order,
    seed_of,
    share,
    steps_left,
)
from tests.properties.profiles import profile

counts = st.integers(1, 60)
changes = st.lists(st.tuples(counts, counts, st.integers(1, 9)), min_size=1, max_size=30)
"""Step by step: the batch, the micro-batch and the number of workers; the last ones stay."""


@given(samples=counts, epochs=st.integers(1, 3), history=changes)
@profile(200)
def test_every_sample_is_used_once_an_epoch_whatever_the_worlds_and_batches(
    samples: int, epochs: int, history: list[tuple[int, int, int]]
) -> None:
    at, used = Progress(), Counter[tuple[int, int]]()
    while not finished(at, epochs):
        batch, size, world = history[min(at.step, len(history) - 1)]
        step = micros(at, samples, batch, size)
        for rank in range(world):
            for micro in share(step, rank, world):
                used.update((micro.epoch, place) for place in range(micro.start, micro.stop))
        at = after(at, samples, batch)
    assert used == Counter((epoch, place) for epoch in range(epochs) for place in range(samples))
    assert (at.epoch, at.cursor) == (epochs, 0)


@given(samples=counts, cursor=st.integers(0, 59), batch=counts, size=counts, world=st.integers(1, 70))
@profile(200)
def test_the_shares_of_all_ranks_are_the_step_and_no_micro_batch_is_in_two(
    samples: int, cursor: int, batch: int, size: int, world: int
) -> None:
    step = micros(Progress(2, cursor % samples, 7), samples, batch, size)
    shares = [share(step, rank, world) for rank in range(world)]
    assert sorted((micro for part in shares for micro in part), key=lambda micro: micro.index) == list(step)
    assert all(micro.index % world == rank for rank, part in enumerate(shares) for micro in part)


@given(samples=counts, cursor=st.integers(0, 59), batch=counts, size=counts)
@profile(200)
def test_a_step_is_one_run_of_positions_in_micro_batches_of_one_size_whose_weights_sum_to_one(
    samples: int, cursor: int, batch: int, size: int
) -> None:
    at = Progress(1, cursor % samples, 3)
    step = micros(at, samples, batch, size)
    lengths = [micro.stop - micro.start for micro in step]
    assert step[0].start == at.cursor
    assert all(one.stop == two.start for one, two in pairwise(step))
    assert [micro.index for micro in step] == list(range(len(step)))
    assert set(lengths[:-1]) <= {size}
    assert 0 < lengths[-1] <= size
    assert {micro.of for micro in step} == {sum(lengths)} == {min(batch, samples - at.cursor)}
    assert sum(micro.weight for micro in step) == pytest.approx(1)


@given(samples=counts, batch=counts, epochs=st.integers(0, 4), walked=st.integers(0, 50))
@profile(100)
def test_steps_left_is_what_walking_to_the_end_takes(
    samples: int, batch: int, epochs: int, walked: int
) -> None:
    at = Progress()
    for _ in range(walked):
        at = after(at, samples, batch)
    left = steps_left(at, samples, batch, epochs)
    for _ in range(left):
        assert not finished(at, epochs)
        at = after(at, samples, batch)
    assert finished(at, epochs)


def test_the_last_step_of_an_epoch_is_smaller_and_the_next_epoch_starts_at_its_beginning() -> None:
    assert micros(Progress(0, 8, 2), 10, 4, 4) == (Micro(2, 0, 0, 8, 10, 2),)
    assert after(Progress(0, 8, 2), 10, 4) == Progress(1, 0, 3)


def test_an_order_holds_every_sample_once_and_differs_by_epoch_and_seed() -> None:
    one = order(7, 0, 1000)
    assert sorted(one.tolist()) == list(range(1000))
    assert np.array_equal(one, order(7, 0, 1000))
    assert not np.array_equal(one, order(7, 1, 1000))
    assert not np.array_equal(one, order(8, 0, 1000))
    assert order(-1, 0, 3).size == 3


def test_the_order_is_the_same_on_every_machine_and_version() -> None:
    """Written down once: a checkpoint of today must be resumable with the NumPy of tomorrow."""
    assert order(42, 3, 10).tolist() == [0, 8, 6, 5, 1, 3, 7, 4, 2, 9]
    assert seed_of(42, 3, 1) == 8783482461843417109


def test_seeds_of_neighbours_are_all_different_and_use_all_63_bits() -> None:
    seeds = {seed_of(seed, step, index) for seed in (0, 1) for step in range(60) for index in range(60)}
    assert len(seeds) == 7200
    assert all(0 <= seed < 1 << 63 for seed in seeds)
    ones = [sum(seed >> bit & 1 for seed in seeds) / len(seeds) for bit in range(63)]
    assert 0.45 < min(ones) < max(ones) < 0.55


@pytest.mark.parametrize(
    ("at", "samples", "batch", "size"),
    [(Progress(0, 10, 1), 10, 4, 2), (Progress(), 0, 4, 2), (Progress(), 10, 0, 2), (Progress(), 10, 4, 0)],
)
def test_a_step_that_cannot_be_is_refused(at: Progress, samples: int, batch: int, size: int) -> None:
    with pytest.raises(ValueError, match=r"not 0|no position"):
        micros(at, samples, batch, size)
    with pytest.raises(ValueError, match="no rank 2"):
        share((), 2, 2)
