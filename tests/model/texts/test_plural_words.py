"""A noun agrees with its number."""

import pytest

from grus.model.texts.plural_words import counted


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0 GPUs"),
        (1, "1 GPU"),
        (2, "2 GPUs"),
        (0.5, "0.5 GPU"),
        (1.5, "1.5 GPUs"),
        ("1", "1 GPU"),
        ("0.5", "0.5 GPU"),
        ("2..4", "2..4 GPUs"),
    ],
)
def test_a_noun_agrees_with_its_number(number: float | str, words: str) -> None:
    assert counted(number, "GPU") == words


def test_a_noun_may_have_a_plural_of_its_own() -> None:
    assert (counted(1, "entry", "entries"), counted(3, "entry", "entries")) == ("1 entry", "3 entries")
