"""A file is examined however damaged it is: what cannot be read is a finding, never an error."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from grus.controlplane.integrity.check import check
from grus.model.identifiers import QueueName
from grus.model.interfaces import QUEUES
from grus.model.queues import Queue
from grus.store.sqlite import SqliteStore
from tests.store.builders import a_job, an_event

TRIES = 40
"""Pages that are damaged in each way."""

Damage = Callable[[bytearray, random.Random], None]


def overwritten(page: bytearray, chance: random.Random) -> None:
    page[:] = b"\xa5" * len(page)


def emptied(page: bytearray, chance: random.Random) -> None:
    page[:] = bytes(len(page))


def half_written(page: bytearray, chance: random.Random) -> None:
    half = len(page) // 2
    page[half:] = chance.randbytes(len(page) - half)


def rotten(page: bytearray, chance: random.Random) -> None:
    for _ in range(20):
        page[chance.randrange(len(page))] = chance.randrange(256)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    store = SqliteStore(tmp_path_factory.mktemp("whole") / "grus.db")
    store.put(QUEUES, Queue(name=QueueName("vision"))).result()
    for number in range(300):
        job = a_job(f"j{number:04}")
        store.create(job, an_event(job), key=f"k{number}").result()
    store.close()
    return store.path.read_bytes()


def test_a_whole_file_is_clean(whole: bytes, tmp_path: Path) -> None:
    (tmp_path / "grus.db").write_bytes(whole)
    found = check(tmp_path / "grus.db")
    assert found.clean
    assert found.jobs == 300


@pytest.mark.parametrize("damage", [overwritten, emptied])
def test_a_lost_page_is_found_wherever_it_is(whole: bytes, tmp_path: Path, damage: Damage) -> None:
    for begin in [0, *some_pages(whole)]:
        damaged(whole, begin, damage, tmp_path / "grus.db")
        assert not check(tmp_path / "grus.db").clean, f"at {begin}"


@pytest.mark.parametrize("damage", [half_written, rotten])
def test_whatever_a_damage_hits_the_examination_comes_to_its_end(
    whole: bytes, tmp_path: Path, damage: Damage
) -> None:
    """It may hit room that is not used, or a text of which nobody knows what it said."""
    for begin in [0, *some_pages(whole)]:
        damaged(whole, begin, damage, tmp_path / "grus.db")
        assert check(tmp_path / "grus.db").jobs <= 300


def page_size(whole: bytes) -> int:
    return int.from_bytes(whole[16:18], "big")


def some_pages(whole: bytes) -> list[int]:
    return random.Random(7).sample(range(0, len(whole), page_size(whole)), TRIES)


def damaged(whole: bytes, begin: int, damage: Damage, target: Path) -> None:
    end = begin + page_size(whole)
    page = bytearray(whole[begin:end])
    damage(page, random.Random(begin))
    target.write_bytes(whole[:begin] + page + whole[end:])
