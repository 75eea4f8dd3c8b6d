from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grus.estimation.allocation_trace import Event, MemoryCategory, Trace
from grus.estimation.allocator import MIB
from grus.estimation.calibration import Margin, usual
from grus.estimation.gpus import GpuKind, find, virtual
from grus.estimation.memory_estimator import NEAR, Biggest, biggest, estimated, of_mapping
from grus.estimation.roofline import OperatorCost

CARD = GpuKind("card", 1000 * MIB, 100 * MIB, 1e12, 2e12, 1e11, 1e10)
TRACE = Trace(
    (Event(0, 100 * MIB), Event(1, 300 * MIB), Event(1, -300 * MIB), Event(2, 200 * MIB)),
    {0: MemoryCategory.WEIGHTS, 1: MemoryCategory.ACTIVATIONS, 2: MemoryCategory.GRADIENTS},
    works=(OperatorCost(flops=10**12, moved=10**9), OperatorCost(moved=10**10)),
)


def test_the_estimate_is_the_sum_of_its_parts_and_the_bound_lies_above() -> None:
    found = estimated(TRACE, CARD, 8, margin=Margin(10 * MIB, 50 * MIB))
    assert found.estimate == found.parts.total == (400 + 10 + 100) * MIB
    assert found.upper == (400 + 50 + 100) * MIB
    assert (found.parts.weights, found.parts.context) == (100 * MIB, 100 * MIB)
    assert found.fits


def test_without_anything_learned_the_usual_margin_holds() -> None:
    found = estimated(TRACE, CARD, 8)
    assert found.upper - found.estimate == usual(400 * MIB).upper
    assert usual(10**12).upper == usual(10**11).upper < 10**9


def test_what_fits_by_the_estimate_only_fits_perhaps() -> None:
    tight = replace(CARD, memory=550 * MIB)
    found = estimated(TRACE, tight, 8)
    assert (found.fits, found.perhaps) == (False, True)
    none = estimated(TRACE, replace(CARD, memory=450 * MIB), 8)
    assert (none.fits, none.perhaps) == (False, False)


def test_seconds_follow_the_slower_of_computing_and_moving() -> None:
    found = estimated(TRACE, CARD, 8, waiting=1.0)
    assert found.seconds == pytest.approx(1 + 1 / 0.6 + 0.1 / 0.8, rel=1e-3)
    assert estimated(TRACE, replace(CARD, bandwidth=1e12), 8).seconds < found.seconds


def test_a_virtual_gpu_keeps_no_segments() -> None:
    pretended = virtual(4 * 10**9)
    found = estimated(TRACE, pretended, 8)
    assert found.parts.weights + found.parts.activations == 400 * MIB
    assert found.estimate == 400 * MIB + 100 * MIB + pretended.context
    assert found.upper > found.estimate


def test_an_estimate_survives_the_way_through_json() -> None:
    found = estimated(TRACE, find("RTX3060"), 8, how=("bf16",), workers=2, traffic=7)
    assert of_mapping(asdict(found)) == found


# ------------------------------------------------------------------------------------------ the biggest batch


class Memory:
    """Bytes of a batch, with how often they were asked for."""

    def __init__(self, base: int, each: int, step: int = 1, least: int = 1) -> None:
        self.asked: list[int] = []
        self._base, self._each, self._step, self._least = base, each, step, least

    def __call__(self, size: int) -> int | None:
        assert size not in self.asked
        self.asked.append(size)
        if size < self._least:
            return None
        return self._base + -(-self._each * size // self._step) * self._step


def test_a_line_is_followed_in_few_looks() -> None:
    memory = Memory(10**9, 10**6)
    found = biggest(memory, 12 * 10**9, 64)
    assert found.too_big is not None
    assert 11_000 * (1 - 1 / NEAR) <= found.size <= 11_000 < found.too_big
    assert len(memory.asked) <= 7


def test_not_even_one_sample_may_fit() -> None:
    assert biggest(Memory(10**9, 10**6), 10**9, 64) == Biggest(0, 1)


def test_no_batch_may_be_too_big() -> None:
    assert biggest(Memory(5, 0), 10, 3, most=1000) == Biggest(1000, None)


@given(
    base=st.integers(0, 10**10),
    each=st.integers(1, 10**9),
    step=st.sampled_from([1, 10**6, 10**8]),
    memory=st.integers(1, 10**11),
    start=st.integers(1, 5000),
    least=st.integers(1, 3),
)
def test_the_answer_fits_and_what_is_a_little_bigger_does_not(
    base: int, each: int, step: int, memory: int, start: int, least: int
) -> None:
    bytes_of = Memory(base, each, step, least)
    found = biggest(bytes_of, memory, start)
    if found.size:
        fits = Memory(base, each, step, least)(found.size)
        assert fits is not None
        assert fits <= memory
    if found.too_big is not None:
        assert found.too_big - found.size <= max(1, found.size // NEAR)
        over = Memory(base, each, step, least)(found.too_big)
        assert over is None or over > memory
    assert len(bytes_of.asked) <= 40
