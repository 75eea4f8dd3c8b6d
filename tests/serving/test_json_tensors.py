"""What a request may hold: numbers in equal rows, finite, of the shape that the model takes."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grus.model.errors import BadInput
from grus.serving.json_tensors import Form, NotFinite, plain, request, tensor

BAD_BODIES = [
    (b"", "not valid JSON"),
    (b"{", "not valid JSON"),
    (b"\xff\xfe", "not valid JSON"),
    (b"[" * 200_000, "not valid JSON"),
    (b"[1]", "must be a mapping"),
    (b"{}", "is needed"),
    (b'{"inputs": [1], "inptus": 2}', "is not known here"),
    (b'{"inputs": [1], "dtype": "complex"}', "must be one of float32"),
    (b'{"inputs": [1], "dtype": []}', "must be one of float32"),
]
BAD_INPUTS = [
    (1, "list of samples"),
    ("text", "list of samples"),
    ({"a": 1}, "list of samples"),
    ([], "at least one"),
    ([[1], [2, 3]], "one shape"),
    ([[1], 2], "one shape"),
    ([[1, "2"]], "numbers only"),
    ([[None]], "numbers only"),
    ([[True]], "numbers only"),
    ([[{}]], "numbers only"),
    ([[10**400]], "numbers only"),
    ([[math.nan]], "finite"),
    ([[math.inf]], "finite"),
    ([[1e39]], "range of float32"),
]


@pytest.mark.parametrize(("body", "words"), BAD_BODIES)
def test_a_body_that_is_no_request_is_refused_with_the_reason(body: bytes, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        request(body)


@pytest.mark.parametrize(("inputs", "words"), BAD_INPUTS)
def test_inputs_that_are_no_samples_are_refused_with_the_reason(inputs: object, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        tensor(inputs, Form())


def test_a_wrong_shape_is_told_with_the_right_one() -> None:
    with pytest.raises(BadInput, match=r"shape \[1, 12, 12\], and these have \[2\]"):
        tensor([[1, 2]], Form(torch.float32, (1, 12, 12)))


def test_whole_numbers_are_needed_where_the_model_takes_them() -> None:
    assert tensor([[1.0, 2.0]], Form(torch.int64)).dtype == torch.int64
    with pytest.raises(BadInput, match="whole numbers"):
        tensor([[1.5]], Form(torch.int64))
    assert tensor([[1]], Form(), "int64").dtype == torch.int64


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=5))
def test_numbers_arrive_as_they_were_sent(rows: list[list[float]]) -> None:
    assert np.allclose(tensor(rows, Form(torch.float64)).numpy(), rows)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)


@given(json_like)
def test_whatever_is_sent_is_a_tensor_or_a_mistake(inputs: object) -> None:
    try:
        found = tensor(inputs, Form())
    except BadInput:
        return
    assert bool(torch.isfinite(found).all())


def test_answers_are_plain_and_never_nan() -> None:
    said = {"label": torch.tensor([1]), "p": (torch.tensor([0.5]), np.float64(0.25), "a", None)}
    assert plain(said) == {"label": [1], "p": [[0.5], 0.25, "a", None]}
    assert plain(torch.tensor([0.5], dtype=torch.bfloat16)) == [0.5]
    for bad in (torch.tensor([math.nan]), math.inf, [np.float32("nan")]):
        with pytest.raises(NotFinite):
            plain(bad)
    with pytest.raises(TypeError, match="which JSON cannot carry"):
        plain(object())
