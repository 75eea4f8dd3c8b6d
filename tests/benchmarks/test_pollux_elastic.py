"""The elastic side of the replay: what may be known, where jobs go, what a resize costs, what is fair."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.pollux import GRUS, NO_ORACLE, POOLED, PROGRESS, ratio_name
from benchmarks.pollux_elastic import SIZES, Elastic, Knowing
from benchmarks.pollux_fairness import Alone, finish_time_fairness
from benchmarks.pollux_live import LiveReplay
from benchmarks.pollux_placing import arrange
from benchmarks.pollux_replay import NODES, PER_NODE, RESTART, Allocation, Running
from benchmarks.pollux_traces import Submission, data_folder, read_applications
from grus.simulator.workload.pollux_applications import Application

DATA = data_folder()
needs_data = pytest.mark.skipif(DATA is None, reason="set GRUS_DATA to the folder that holds pollux/")


@pytest.fixture(scope="module")
def apps() -> dict[str, Application]:
    assert DATA is not None
    return read_applications(DATA)


def a_job(apps: dict[str, Application], name: str, application: str) -> Running:
    return Running(Submission(name, 0, application, 1, apps[application].first_batch), apps[application])


def ran(policy: Elastic, job: Running) -> None:
    """The job measured one step on one GPU."""
    job.placement, job.local = (1,), job.app.first_batch
    policy.observe(job, *job.app.step_time(job.placement, job.local), *job.app.gradients(job.local, 0))


@needs_data
@pytest.mark.parametrize(
    ("knowing", "others"), [(NO_ORACLE, 0), (PROGRESS, 0), (POOLED, 1), (GRUS, 1)], ids=str
)
def test_others_are_known_only_once_they_ended_and_only_where_pooled(
    apps: dict[str, Application], knowing: Knowing, others: int
) -> None:
    policy = Elastic(knowing)
    first, second, stranger = (a_job(apps, *who) for who in (("a", "bert"), ("b", "bert"), ("c", "cifar10")))
    ran(policy, first)
    assert policy.profile(second).version == 0
    policy.finished(first)
    assert policy.profile(second).version == others
    assert (policy.noise(second) is not None) == bool(others)
    assert policy.profile(stranger).version == 0


@needs_data
def test_without_progress_a_job_is_as_long_as_it_is_old(apps: dict[str, Application]) -> None:
    """However far it is: progress is not looked at."""
    policy, job = Elastic(NO_ORACLE), a_job(apps, "a", "bert")
    ran(policy, job)
    before = policy.candidate(500.0, job, 1)
    job.progress = job.app.work - 1
    assert policy.candidate(500.0, job, 1) == before
    assert (before.length, before.known) == (500.0, False)


@needs_data
def test_a_job_alone_takes_a_start_and_its_true_time(apps: dict[str, Application]) -> None:
    job = a_job(apps, "a", "ncf")
    times = LiveReplay([job], Elastic(GRUS), GRUS.stall).run().times
    assert times["a"] == pytest.approx(RESTART + Alone(apps).time("ncf", 1), rel=1e-6)


@needs_data
def test_a_dearer_stall_makes_a_growing_job_later(apps: dict[str, Application]) -> None:
    ends = [
        LiveReplay([a_job(apps, "a", "cifar10")], Elastic(GRUS), stall).run().times["a"]
        for stall in (1.0, 15.0)
    ]
    assert ends[0] < ends[1]


@needs_data
def test_a_job_with_the_pool_to_itself_and_no_delay_is_treated_fairly(apps: dict[str, Application]) -> None:
    alone = Alone(apps)
    job = a_job(apps, "a", "bert").submission
    best = alone.time("bert", NODES * PER_NODE)
    assert finish_time_fairness([job], {"a": best}, alone)["a"] == pytest.approx(1.0)
    assert finish_time_fairness([job], {"a": 3 * best}, alone)["a"] == pytest.approx(3.0)


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, int]]:
    """Sizes that fit the pool, several times over."""
    found = []
    for _ in range(draw(st.integers(1, 6))):
        sizes: dict[str, int] = {}
        for name in draw(st.lists(st.sampled_from("abcdefghijklmnopqrst"), unique=True)):
            size = draw(st.sampled_from(SIZES))
            if sum(sizes.values()) + size <= NODES * PER_NODE:
                sizes[name] = size
        found.append(sizes)
    return found


@given(histories())
def test_every_size_has_a_place_and_large_ones_stay_on_nodes_of_their_own(
    history: list[dict[str, int]],
) -> None:
    before: dict[str, Allocation] = {}
    for sizes in history:
        after = arrange(sizes, before)
        assert {name: len(where) for name, where in after.items()} == sizes
        used = [node for where in after.values() for node in where]
        assert all(used.count(node) <= PER_NODE for node in set(used))
        for name, where in after.items():
            assert len(where) >= PER_NODE or len(set(where)) == 1
            if len(where) >= PER_NODE:
                assert all(where.count(node) == PER_NODE for node in where)
                assert len(before.get(name, ())) != len(where) or where == before[name]
        before = after


def test_what_was_varied_comes_last_in_a_name() -> None:
    assert ratio_name("grus") == "grus_ratio"
    assert ratio_name("grus_stall_15") == "grus_ratio_stall_15"
