"""What Grus promises, through kubectl: the same histories as `tests/live`, with pods in a cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.clusters import Cluster, shared
from tests.kubernetes.pool import KubernetesPool


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    """Of this file alone: its controller takes whatever is in it."""
    with shared("semantics", "--without", "kube-scheduler") as started:
        yield started


def two_queues(cluster: Cluster, folder: Path, a: float = 2, b: float = 2) -> KubernetesPool:
    return KubernetesPool(cluster, folder, 4, a={"quota": a}, b={"quota": b})


def test_quota_is_lent_and_taken_back(own_cluster: Cluster, tmp_path: Path) -> None:
    """Two histories of A 2, B 2: a borrower is paused and resumes; a rigid one over quota is paused whole."""
    with two_queues(own_cluster, tmp_path) as pool:
        pool.run("a2", "a", 2)
        pool.run("a1", "a")
        pool.run("b1", "b")
        assert pool.running() == {"a2", "a1", "b1"}
        pool.run("b2", "b")
        assert pool.running() == {"a2", "b1", "b2"}
        assert pool.paused() == {"a1"}
        assert pool.record("a1")["paused_by"] == "scheduler"
        pool.delete("a2")
        assert pool.running() == {"a1", "b1", "b2"}
        assert pool.record("a1")["attempt"] == 2
        for name in ("a1", "b1", "b2"):
            pool.delete(name)
        pool.run("a4", "a", 4)
        assert pool.running() == {"a4"}
        pool.run("b3", "b", 2)
        assert (pool.running(), pool.paused()) == ({"b3"}, {"a4"})


def test_never_preempted_jobs_stay_inside_quota_and_are_never_paused(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    with two_queues(own_cluster, tmp_path) as pool:
        pool.run("d", "a", 2, type="dev")
        pool.run("d2", "a", type="dev")
        assert (pool.running(), pool.waiting()) == ({"d"}, {"d2"})  # two GPUs idle
        pool.run("b1", "b", 4)
        pool.run("b2", "b", 3, priority=90)
        pool.run("b3", "b", 2)
        pool.run("b4", "b", 1, type="dev")
        assert "d" in pool.running()
        assert pool.record("d")["attempt"] == 1
        assert "d" not in pool.pauses()


def test_after_a_minute_borrowed_gpus_return_to_two_and_two_and_stay_so(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    with two_queues(own_cluster, tmp_path, a=1, b=1) as pool:
        pool.submit_many("a", 6)
        pool.settle()
        assert pool.held("a") == 4
        pool.after(61)
        pool.submit_many("b", 4)
        pool.settle()
        assert (pool.held("a"), pool.held("b")) == (2, 2)
        assert len(pool.paused("a")) == 2
        queues = iter("abba" * 4)
        while pool.waiting("a") and pool.waiting("b"):
            pool.finish(max(pool.running(next(queues))))
            assert (pool.held("a"), pool.held("b")) == (2, 2)
        assert len(pool.pauses()) == 2


def test_starts_of_two_equal_queues_interleave_whoever_came_first(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    """A's 50 were there first. The first 12 starts show it; each costs a pod."""
    with two_queues(own_cluster, tmp_path) as pool:
        pool.cordon()
        pool.submit_many("a", 50)
        pool.submit_many("b", 25)
        assert pool.running() == set()
        pool.uncordon()
        while len(started := pool.starts()) < 12:
            assert (pool.held("a"), pool.held("b")) == (2, 2)
            assert abs(sum(name[0] == "a" for name in started) - sum(name[0] == "b" for name in started)) <= 2
            running = pool.running()
            pool.finish(next(name for name in started if name in running))
        assert pool.pauses() == []


def test_gangs_start_whole_and_elastic_jobs_grow_and_shrink_without_a_restart(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    with KubernetesPool(own_cluster, tmp_path, 4) as pool:
        pool.run("one")
        pool.run("gang", gpu=4, launch="per-gpu")
        assert pool.running() == {"one"}
        assert pool.pods("gang") == []
        pool.delete("gang")
        pool.run("elastic", gpu="2..4", resize="live")
        before = {pod["metadata"]["uid"] for pod in pool.pods("elastic")}
        assert len(before) == 3
        pool.finish("one")
        after = {pod["metadata"]["uid"] for pod in pool.pods("elastic")}
        assert (len(after), before < after) == (4, True)
        record = pool.record("elastic")
        assert (record["attempt"], record["generation"]) == (1, 2)
        pool.run("other", gpu=2)
        shrunk = {pod["metadata"]["uid"] for pod in pool.pods("elastic")}
        assert (len(shrunk), shrunk < after) == (2, True)
        assert pool.running() == {"elastic", "other"}
        assert pool.record("elastic")["attempt"] == 1


def test_an_elastic_job_of_eight_gives_two_to_an_equal_ones_minimum(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    with KubernetesPool(own_cluster, tmp_path, 8) as pool:
        pool.run("wide", gpu="2..8", resize="live")
        assert len(pool.pods("wide")) == 8
        pool.run("other", gpu=2)
        assert (len(pool.pods("wide")), pool.job("wide")["status"]["replicas"]) == (6, 6)
        assert pool.pauses() == []


def test_reserved_gpus_are_never_lent(own_cluster: Cluster, tmp_path: Path) -> None:
    """A's reserved two idle for ever; from the moment that B reserves the others, a third queue gets none."""
    queues = {"a": {"quota": 2, "reserved": 2}, "b": {"quota": 2}, "c": {"weight": 9}}
    with KubernetesPool(own_cluster, tmp_path, 4, **queues) as pool:
        pool.submit_many("c", 3)
        pool.settle()
        assert (pool.held("c"), len(pool.waiting("c"))) == (2, 1)
        pool.apply("GpuQueue", "b", {"quota": 2, "reserved": 2})
        pool.settle()
        for name in sorted(pool.running("c")):
            pool.finish(name)
        assert (pool.held("c"), len(pool.waiting("c"))) == (0, 1)
        pool.submit_many("a", 2)
        pool.submit_many("b", 2)
        pool.settle()
        assert (pool.held("a"), pool.held("b"), pool.held("c")) == (2, 2, 0)


def test_two_gangs_that_each_need_all_run_one_after_the_other(own_cluster: Cluster, tmp_path: Path) -> None:
    with two_queues(own_cluster, tmp_path) as pool:
        pool.run("one", "a", 4)
        pool.run("two", "b", 4)
        assert pool.running() == {"one"}
        pool.finish("one")
        assert pool.running() == {"two"}
        assert pool.pauses() == []


def test_five_equal_queues_share_four_gpus_in_turn(own_cluster: Cluster, tmp_path: Path) -> None:
    names = "abcde"
    with KubernetesPool(own_cluster, tmp_path, 4, **{name: {"quota": 0.8} for name in names}) as pool:
        pool.cordon()
        for name in names:
            pool.submit_many(name, 3)
        pool.uncordon()
        for _ in range(6):
            started = pool.starts()
            counts = [sum(job[0] == name for job in started) for name in names]
            assert max(counts) - min(counts) <= 1, started
            running = pool.running()
            pool.finish(next(job for job in started if job in running))
        assert pool.pauses() == []


def test_fair_shares_of_twenty_six_gpus(own_cluster: Cluster, tmp_path: Path) -> None:
    """Quotas 6, 0, 0, weights 3, 2, 1, each wants 26: 16, 6.67 and 3.33, given as 16, 7 and 3."""
    queues = {"a": {"quota": 6, "weight": 3}, "b": {"weight": 2}, "c": {"weight": 1}}
    with KubernetesPool(own_cluster, tmp_path, 26, **queues) as pool:
        pool.cordon()
        for name in queues:
            pool.submit_many(name, 26)
        pool.uncordon()
        assert [pool.held(name) for name in queues] == [16, 7, 3]
        assert pool.pauses() == []
