"""Gangs and elastic jobs: all or nothing, and sizes that change under living processes."""

from pathlib import Path

import pytest

from tests.live.pool import LivePool


def test_a_gang_of_four_starts_none_of_its_workers_on_three_gpus(tmp_path: Path) -> None:
    with LivePool(tmp_path, "1x4x1GB") as pool:
        pool.run("one")
        pool.run("gang", gpus=4, launch="per-gpu")
        assert pool.running() == {"one"}
        assert pool["gang"].seats == ()
        assert pool.pids("gang") == set()
        pool.finish("one")
        assert pool["gang"].gpus == 4
        assert len(pool.pids("gang")) == 4
        assert len(pool.starts()) == 2


def test_an_elastic_job_starts_with_three_and_grows_to_four_without_a_restart(tmp_path: Path) -> None:
    """The three processes that ran before are the same afterwards; one is new."""
    with LivePool(tmp_path, "1x4x1GB") as pool:
        pool.run("one")
        pool.run("elastic", gpus="2..4")
        before = pool.pids("elastic")
        assert (pool["elastic"].gpus, len(before)) == (3, 3)
        pool.finish("one")
        after = pool.pids("elastic")
        assert (pool["elastic"].gpus, len(after)) == (4, 4)
        assert before < after
        assert (pool["elastic"].attempt, pool["elastic"].generation) == (1, 2)
        pool.finish("elastic")


@pytest.mark.parametrize("gpus", [2, "2..2"])
def test_an_elastic_job_gives_its_surplus_to_an_equal_ones_minimum(tmp_path: Path, gpus: int | str) -> None:
    """An elastic 2..8 holds 8; another of its queue and priority with minimum 2 arrives: it shrinks to 6."""
    with LivePool(tmp_path, "1x8x1GB") as pool:
        pool.run("wide", gpus="2..8")
        before = pool.pids("wide")
        assert (pool["wide"].gpus, len(before)) == (8, 8)
        pool.run("other", gpus=gpus)
        after = pool.pids("wide")
        assert (pool["wide"].gpus, len(after)) == (6, 6)
        assert after < before
        assert pool["other"].gpus == 2
        assert pool["wide"].attempt == pool["other"].attempt == 1
        assert pool.pauses() == []
        pool.finish("other")
        assert pool["wide"].gpus == 8
        assert after < pool.pids("wide")
        pool.finish("wide")
