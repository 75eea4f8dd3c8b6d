"""What a changed tag matters, and what decisions make of a job's rhythm."""

from dataclasses import replace

import pytest

from grus.model.tags import Kind, Tag
from grus.scheduling.rhythm import is_news

TAG = Tag(
    kind=Kind.TRAINING,
    at=0.0,
    expires=1e9,
    period=20.0,
    boundary=100.0,
    utilisation=0.8,
    peak_memory=10_000,
)


@pytest.mark.parametrize(
    ("changes", "news"),
    [
        ({"note": "other words", "confidence": 0.3, "at": 55.0, "expires": 2e9}, False),
        ({"boundary": 500.0}, False),  # twenty periods on: the same beat
        ({"boundary": 501.0}, False),
        ({"boundary": 510.0}, True),
        ({"boundary": 497.5}, True),
        ({"period": 20.01}, False),
        ({"period": 30.0}, True),
        ({"period": None, "boundary": None}, True),
        ({"kind": Kind.IDLE}, True),
        ({"hung_since": 90.0}, True),
        ({"utilisation": 0.85}, False),
        ({"utilisation": 0.5}, True),
        ({"utilisation": None}, True),
        ({"peak_memory": 10_100}, False),
        ({"peak_memory": 12_000}, True),
    ],
)
def test_a_changed_tag_is_news_only_by_what_decisions_look_at(changes: dict[str, object], news: bool) -> None:
    assert is_news(TAG, replace(TAG, **changes), now=600.0) is news  # type: ignore[arg-type]  # fields of Tag


def test_a_first_tag_is_news_and_so_is_its_end() -> None:
    assert is_news(None, TAG, 1.0)
    assert is_news(TAG, None, 1.0)
    assert not is_news(None, None, 1.0)
