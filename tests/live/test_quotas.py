"""Quotas that lend and take back, with real processes on four GPUs."""

import sys
from pathlib import Path

import pytest

from grus.model.errors import DoesNotFit
from tests.live.pool import LivePool, two_queues

SAVES = """
import os, select
from grus.sdk import worker
saved = worker.checkpoint_path()
assert worker.resuming() == saved.exists()
before = saved.read_text() if worker.resuming() else ""
gate = os.open(os.environ["GATE"], os.O_RDONLY)
while not worker.should_pause():
    if select.select([gate], [], [], 0.05)[0]:
        saved.write_text(before + "finished\\n")
        raise SystemExit
saved.write_text(before + "saved\\n")
"""
"""Saves when it is asked to pause, goes on from there when it is started again, ends when its gate opens."""


def test_the_owner_of_quota_takes_back_what_was_lent_and_the_borrower_resumes_from_its_checkpoint(
    tmp_path: Path,
) -> None:
    """A borrowed one GPU: when B asks inside its quota a1 saves and pauses; when a2 is gone a1 resumes."""
    script = tmp_path / "saves.py"
    script.write_text(SAVES)
    with two_queues(tmp_path) as pool:
        pool.run("a2", "a", 2)
        pool.run(
            "a1",
            "a",
            run=[sys.executable, str(script)],
            env={"GATE": str(tmp_path / "a1")},
            checkpoint={"path": "a1.saved", "grace": "30s"},
        )
        pool.run("b1", "b")
        assert pool.running() == {"a2", "a1", "b1"}
        others = pool.pids("a2") | pool.pids("b1")
        pool.run("b2", "b")
        assert pool.running() == {"a2", "b1", "b2"}
        assert (pool["a1"].phase, pool["a1"].paused_by) == ("paused", "scheduler")
        assert pool.pids("a1") == set()
        assert (tmp_path / "a1.saved").read_text() == "saved\n"
        assert pool.pids("a2") | pool.pids("b1") == others
        pool.delete("a2")
        assert pool.running() == {"a1", "b1", "b2"}
        assert pool["a1"].attempt == 2
        pool.finish("a1")
        assert (tmp_path / "a1.saved").read_text() == "saved\nfinished\n"
        assert pool["b1"].attempt == pool["b2"].attempt == 1


def test_a_rigid_job_over_quota_is_paused_whole(tmp_path: Path) -> None:
    """A's rigid 4 is over its quota of 2 as a whole: B's 2 inside quota pause it and run."""
    with two_queues(tmp_path) as pool:
        pool.run("a1", "a", 4)
        assert pool.running() == {"a1"}
        pool.run("b1", "b", 2)
        assert pool.running() == {"b1"}
        assert pool["a1"].phase == "paused"
        assert pool.pids("a1") == set()
        pool.finish("b1")
        assert pool.running() == {"a1"}


def test_a_dev_job_inside_quota_is_never_paused_whatever_others_ask(tmp_path: Path) -> None:
    with two_queues(tmp_path) as pool:
        pool.run("d", "a", 2, type="dev")
        pids = pool.pids("d")
        pool.run("b1", "b", 4)
        pool.run("b2", "b", 3, priority=90)
        pool.run("b3", "b", 2)
        pool.run("b4", "b", 1, type="dev")
        assert "d" in pool.running()
        assert pool["d"].attempt == 1
        assert pool.pids("d") == pids
        assert pool["d"].id not in {event.job for event in pool.pauses()}


def test_a_dev_job_beyond_its_quota_waits_even_with_idle_gpus(tmp_path: Path) -> None:
    with two_queues(tmp_path) as pool:
        pool.run("d1", "a", 2, type="dev")
        pool.run("d2", "a", type="dev")
        assert pool.running() == {"d1"}
        assert pool["d2"].phase == "pending"
        assert pool.grus.status().pool.held == 2
        pool.finish("d1")
        assert pool.running() == {"d2"}


def test_reserved_gpus_are_never_lent(tmp_path: Path) -> None:
    """A's reserved 2 stay free for A, though they idle; nobody is paused when A comes."""
    queues = {"a": {"quota": 2, "reserved": 2}, "b": {"quota": 2}}
    with LivePool(tmp_path, "1x4x1GB", **queues) as pool:
        pool.submit_many("b", 4)
        pool.settle()
        assert pool.held("b") == 2
        for _ in range(2):
            pool.finish(min(pool.running("b")))
            assert pool.held("b") == 2
        pool.submit_many("a", 2)
        pool.settle()
        assert (pool.held("a"), pool.held("b")) == (2, 2)
        assert pool.pauses() == []


def test_a_third_queue_is_refused_where_all_is_reserved_by_two(tmp_path: Path) -> None:
    """What can never run is not stored."""
    reserved = {"quota": 2, "reserved": 2}
    with LivePool(tmp_path, "1x4x1GB", a=reserved, b=reserved, c={"weight": 9}) as pool:
        with pytest.raises(DoesNotFit):
            pool.submit("c1", "c")
        assert pool.grus.jobs() == []


def test_a_third_queue_gets_nothing_from_the_moment_all_is_reserved_by_two(tmp_path: Path) -> None:
    """Jobs that wait when the second reservation is made wait for ever, though all GPUs idle."""
    reserved = {"quota": 2, "reserved": 2}
    with LivePool(tmp_path, "1x4x1GB", a=reserved, b={"quota": 2}, c={"weight": 9}) as pool:
        pool.submit_many("c", 3)
        pool.settle()
        assert (pool.running("c"), pool.waiting("c")) == ({"c-00", "c-01"}, {"c-02"})
        pool.grus.put_queue("b", reserved)
        pool.finish("c-00")
        pool.finish("c-01")
        assert pool.waiting("c") == {"c-02"}
        assert pool.grus.status().pool.held == 0
        pool.submit_many("a", 2)
        pool.submit_many("b", 2)
        pool.settle()
        assert (pool.held("a"), pool.held("b"), pool.held("c")) == (2, 2, 0)


@pytest.mark.parametrize("first", ["a", "b"])
def test_two_gangs_that_each_need_all_run_one_after_the_other(tmp_path: Path, first: str) -> None:
    """Quotas 2 and 2, both ask for a rigid 4: no swapping; the second runs after the first's end."""
    second = "b" if first == "a" else "a"
    with two_queues(tmp_path) as pool:
        pool.run("one", first, 4)
        pool.run("two", second, 4)
        assert pool.running() == {"one"}
        pids = pool.pids("one")
        for _ in range(3):
            pool.settle()
        assert pool.pids("one") == pids
        pool.finish("one")
        assert pool.running() == {"two"}
        assert pool.pauses() == []
        assert pool["one"].attempt == pool["two"].attempt == 1


def test_a_server_starts_again_with_fewer_gpus_than_its_queues_were_given(tmp_path: Path) -> None:
    given = {"a": {"quota": 3.0}, "b": {"quota": 1.0}}
    for size in ("1x4x1GB", "1x3x1GB"):
        with LivePool(tmp_path, size, **given) as pool:
            assert {queue.name for queue in pool.grus.queues()} == {"a", "b", "default"}
    greedy = LivePool(tmp_path, "1x3x1GB", **given, c={"quota": 1.0})
    assert greedy.launch().wait(300) != 0
    assert "the quotas of a, b, c sum to 5, but the pool has 3 GPUs" in greedy.said.read_text()
