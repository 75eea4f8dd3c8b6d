"""Ranks are those that scipy finds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from grus.tuning.ranking import ranks, smaller

VALUES = st.lists(
    st.sampled_from([-math.inf, -1.5, 0.0, 0.5, 1.0, 7.0, math.inf]) | st.floats(allow_nan=False)
)


@given(VALUES)
def test_ranks_are_scipys(values: list[float]) -> None:
    assert np.array_equal(ranks(values), rankdata(values))
    assert np.array_equal(smaller(values), rankdata(values, method="min") - 1)


@pytest.mark.parametrize("given", [np.array([3.0, 1.0, 3.0]), [3, 1, 3], (3.0, 1.0, 3.0)])
def test_ranks_of_equals_are_the_mean_of_their_places(given: list[float]) -> None:
    assert ranks(given).tolist() == [2.5, 1.0, 2.5]
    assert smaller(given).tolist() == [1, 0, 1]
