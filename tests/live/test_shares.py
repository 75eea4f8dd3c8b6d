"""Fair shares with real processes: who gets the next GPU, and what is taken back after a minute.

Nothing but a request inside quota may end the first minute of a job, so one history needs that minute. Its
pool is started first and ages while the other tests of this file run.
"""

import datetime
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grus.scheduler.preempt.reclaim_eligibility import MINIMUM_RUN
from tests.live.pool import LivePool, two_queues
from tests.server.process import eventually


@pytest.fixture(scope="module", autouse=True)
def lender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePool]:
    """Quotas 1 and 1 of four GPUs, all held by queue a."""
    with two_queues(tmp_path_factory.mktemp("lender"), a=1, b=1) as pool:
        pool.submit_many("a", 6)
        pool.settle()
        assert pool.held("a") == 4
        yield pool


def test_starts_of_two_equal_queues_interleave_whoever_came_first(tmp_path: Path) -> None:
    """A's 20 pending jobs were there first; B's 10 start as often as A's while both wait."""
    with two_queues(tmp_path) as pool:
        pool.grus.cordon("node-0")
        pool.submit_many("a", 20)
        pool.submit_many("b", 10)
        assert pool.running() == set()
        pool.grus.uncordon("node-0")
        eventually(lambda: len(pool.running()) == 4, "the pool is full")
        while pool.waiting("a") and pool.waiting("b"):
            started = pool.starts()
            assert (pool.held("a"), pool.held("b")) == (2, 2)
            assert abs(sum(name[0] == "a" for name in started) - sum(name[0] == "b" for name in started)) <= 2
            running = pool.running()
            pool.finish(next(name for name in started if name in running))
        assert pool.pauses() == []
        assert len(pool.starts("b")) == 10


def test_five_equal_queues_share_four_gpus_in_turn(tmp_path: Path) -> None:
    """Each has more short jobs of one GPU than can run: each runs in turn, nobody is paused."""
    names = "abcde"
    with LivePool(tmp_path, "1x4x1GB", **{name: {"quota": 0.8} for name in names}) as pool:
        pool.grus.cordon("node-0")
        for name in names:
            pool.submit_many(name, 8)
        pool.grus.uncordon("node-0")
        eventually(lambda: len(pool.running()) == 4, "the pool is full")
        for _ in range(20):
            started = pool.starts()
            counts = [sum(job[0] == name for job in started) for name in names]
            assert max(counts) - min(counts) <= 1, started
            running = pool.running()
            pool.finish(next(job for job in started if job in running))
        assert pool.pauses() == []


def test_fair_shares_of_twenty_six_gpus(tmp_path: Path) -> None:
    """Quotas 6, 0, 0, weights 3, 2, 1, each wants 26: 16, 6.67 and 3.33, given as 16, 7 and 3."""
    queues = {"a": {"quota": 6, "weight": 3}, "b": {"weight": 2}, "c": {"weight": 1}}
    with LivePool(tmp_path, "1x26x1GB", **queues) as pool:
        pool.grus.cordon("node-0")
        for name in queues:
            pool.submit_many(name, 26)
        pool.grus.uncordon("node-0")
        eventually(lambda: len(pool.running()) == 26, "the pool is full")
        pool.settle()
        assert [pool.held(name) for name in queues] == [16, 7, 3]
        told = {queue.name: queue for queue in pool.grus.queues()}
        assert [round(told[name].exact_share, 2) for name in queues] == [16.0, 6.67, 3.33]
        assert [told[name].fair_share for name in queues] == [16, 7, 3]
        assert pool.pauses() == []


def test_after_a_minute_borrowed_gpus_return_to_two_and_two_and_stay_so(lender: LivePool) -> None:
    """A holds all four for more than a minute; B's four get two, and shares stay 2 : 2 at each finish."""
    wait_until_a_minute_old(lender)
    lender.submit_many("b", 4)
    lender.settle()
    assert (lender.held("a"), lender.held("b")) == (2, 2)
    assert len(lender.paused("a")) == 2
    assert all(lender[name].paused_by == "scheduler" for name in lender.paused("a"))
    paused = len(lender.pauses())
    queues = iter("abba" * 4)
    while lender.waiting("a") and lender.waiting("b"):
        lender.finish(max(lender.running(next(queues))))
        assert (lender.held("a"), lender.held("b")) == (2, 2)
    assert len(lender.pauses()) == paused == 2


def wait_until_a_minute_old(pool: LivePool) -> None:
    """Until the youngest running job has run for longer than the time that guards it."""
    begun = [pool[name].started_at for name in pool.running()]
    youngest = max(datetime.datetime.fromisoformat(at).timestamp() for at in begun if at is not None)
    eventually(lambda: time.time() > youngest + MINIMUM_RUN + 1, "a minute has passed", MINIMUM_RUN + 30)
