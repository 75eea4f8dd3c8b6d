"""What jobs have shown is kept under their fingerprint, counted once, and outlasts the server."""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import TypeVar

import pytest

from grus.controlplane.fingerprint import profile_cache as module
from grus.controlplane.fingerprint.profile_cache import Profiles, with_pair, with_run, with_speeds
from grus.controlplane.speed.throughput_observations import Learning
from grus.model.audit import AuditRecord
from grus.model.errors import StoreFailed
from grus.model.identifiers import JobId, UserName
from grus.model.interfaces import PROFILES, Collection
from grus.model.jobs import Job, Phase
from grus.model.profiles import MOST_RUNS, JobProfile, Pair, ProfiledRun, Speed
from grus.store.memory import MemoryStore
from tests.scheduler.builders import a_job


def a_run(job: Job, seconds: float = 1.0, **more: object) -> ProfiledRun:
    return ProfiledRun(job=job.id, at=10.0, seconds=seconds, **more)  # type: ignore[arg-type]  # keywords of many types


def known(profiles: Profiles, job: Job) -> JobProfile:
    found = profiles.of(job)
    assert found is not None
    return found


def test_a_run_told_again_is_counted_once_and_as_last_told() -> None:
    job, profiles = a_job("a"), Profiles()
    for seconds in (1.0, 2.0, 3.0):
        profiles.ran(job, a_run(job, seconds))
    assert [run.seconds for run in known(profiles, job).runs] == [3.0]
    assert known(profiles, job).count == 1


def test_old_runs_are_forgotten_and_still_counted() -> None:
    profile = JobProfile(fingerprint="f")
    for number in range(MOST_RUNS + 5):
        profile = with_run(profile, ProfiledRun(job=JobId(f"j{number}"), at=0.0), over=True)
    assert [run.job for run in profile.runs] == [f"j{number}" for number in range(5, MOST_RUNS + 5)]
    assert profile.count == MOST_RUNS + 5


def test_other_code_is_another_fingerprint_of_the_same_program() -> None:
    profiles = Profiles()
    first, second, third = a_job("a"), a_job("b"), a_job("c")
    profiles.settle(first, "code 1", "")
    profiles.ran(first, a_run(first, 1.0))
    profiles.settle(second, "code 2", "")
    assert known(profiles, second).fingerprint == profiles.fingerprint(first), "all that is known so far"
    profiles.ran(second, a_run(second, 2.0))
    assert known(profiles, second).durations == known(profiles, first).durations == ()
    assert [run.job for run in known(profiles, second).runs] == [second.id]
    profiles.settle(third, "code 1", "")
    assert [run.job for run in known(profiles, third).runs] == [first.id]


def test_speeds_of_other_code_count_until_there_are_own_ones() -> None:
    profiles = Profiles()
    first, second = a_job("a", gpus="1..4"), a_job("b", gpus="1..4")
    profiles.settle(first, "code 1", "")
    profiles.taught(first, [Speed(type="A100", nodes=1, gpus=1, local=16, step=1.0)], None, None, 1.0)
    profiles.settle(second, "code 2", "")
    profiles.ran(second, a_run(second))
    assert [bool(one.speeds) for one in profiles.like(second)] == [False, True]
    assert Learning(profiles).greet(second) is not None


def test_another_users_jobs_are_not_mine() -> None:
    profiles = Profiles()
    mine = a_job("a")
    profiles.ran(mine, a_run(mine))
    assert profiles.of(replace(a_job("b"), user=UserName("somebody-else"))) is None


def test_a_new_server_knows_what_was_written_and_whose_it_was() -> None:
    store = MemoryStore()
    profiles, job = Profiles(store), a_job("a")
    settled = profiles.settle(job, "code", "data")
    profiles.ran(job, a_run(job, data="data", code="code"))
    assert store.find(PROFILES) == []
    profiles.write()
    again = Profiles(store)
    assert again.settled(job.id) == settled
    assert known(again, job) == known(profiles, job)


T = TypeVar("T")


class FailingStore(MemoryStore):
    failing = True

    def put(self, collection: Collection[T], *values: T, record: AuditRecord | None = None) -> "Future[None]":
        if not self.failing:
            return super().put(collection, *values, record=record)
        future: Future[None] = Future()
        future.set_exception(StoreFailed("the disk is full"))
        return future


def test_what_could_not_be_written_is_written_the_next_time() -> None:
    store = FailingStore()
    profiles, job = Profiles(store), a_job("a")
    profiles.ran(job, a_run(job))
    profiles.write()
    store.failing = False
    profiles.write()
    assert store.find(PROFILES) == profiles.all()


def test_nothing_new_is_nothing_to_write() -> None:
    store = MemoryStore()
    profiles, job = Profiles(store), a_job("a")
    profiles.ran(job, a_run(job))
    profiles.write()
    told = []
    store.put = lambda _, profile: told.append(profile)  # type: ignore[assignment, method-assign, misc]  # only listens
    profiles.ran(job, a_run(job))
    profiles.write()
    assert told == []


def test_data_is_new_until_a_run_on_it_is_over() -> None:
    profiles = Profiles()
    jobs = [a_job(name) for name in "abc"]
    data = dict(zip(jobs, ("d1", "d2", "d2"), strict=True))

    def begin(job: Job) -> bool:
        profiles.settle(job, "code", data[job])
        profiles.ran(job, a_run(job, data=data[job]))
        return profiles.new_data(job)

    def end(job: Job) -> None:
        profiles.ran(replace(job, phase=Phase.SUCCEEDED), a_run(job, 2.0, data=data[job]))

    assert not begin(jobs[0]), "the first of its fingerprint trains; it does not retrain"
    end(jobs[0])
    assert begin(jobs[1])
    assert profiles.new_data(jobs[1]), "however often it is asked while it runs"
    end(jobs[1])
    assert not begin(jobs[2])


def test_the_newest_speed_at_a_size_counts() -> None:
    old = Speed(type="A100", nodes=1, gpus=2, local=16, step=1.0)
    other = Speed(type="A100", nodes=1, gpus=4, local=16, step=0.6)
    profile = with_speeds(JobProfile(fingerprint="f"), [old, other], 1.0, None)
    profile = with_speeds(profile, [replace(old, step=2.0)], None, 5.0)
    assert {(one.gpus, one.step) for one in profile.speeds} == {(2, 2.0), (4, 0.6)}
    assert (profile.stall, profile.boot) == (1.0, 5.0)


def test_pairs_are_remembered_in_both_profiles_and_smoothed() -> None:
    profiles, one = Profiles(), a_job("a")
    two = a_job("b")
    two = replace(two, spec=replace(two.spec, run=("other",)))
    assert profiles.pair(one, two) is None
    for gain in (1.4, 1.2):
        profiles.paired(one, two, gain, now=5.0)
    for found in (profiles.pair(one, two), profiles.pair(two, one)):
        assert found is not None
        assert (found.times, found.at) == (2, 5.0)
        assert found.gain == pytest.approx(1.3)


def test_a_pair_measured_anew_moves_to_the_end() -> None:
    profile = JobProfile(fingerprint="f", pairs=(Pair(other="x", gain=1.0), Pair(other="y", gain=1.0)))
    assert [pair.other for pair in with_pair(profile, Pair(other="x", gain=2.0)).pairs] == ["y", "x"]


def test_beyond_the_bound_the_one_not_updated_for_longest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_PROFILES", 2)
    profiles = Profiles()
    jobs: Mapping[str, Job] = {
        name: replace(a_job(name), spec=replace(a_job(name).spec, run=(name,))) for name in "abc"
    }
    for at, name in enumerate("abc"):
        profiles.ran(jobs[name], replace(a_run(jobs[name]), at=float(at)))
    assert profiles.of(jobs["a"]) is None
    assert len(profiles.all()) == 2
