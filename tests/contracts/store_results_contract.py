"""What every Store promises of results, which outlast their jobs; part of `StoreContract`."""

from dataclasses import replace

import pytest

from grus.model.errors import BadInput, NotFound
from grus.model.identifiers import JobId, QueueName
from grus.model.interfaces import RESULTS, PruneLimits, Store
from grus.model.jobs import Phase
from grus.model.results import Metric, Result
from tests.store.builders import ADA, BOB, a_full_result, a_job, a_result, done, result_by_key, stored


def kept(store: Store, *results: Result) -> None:
    for future in [store.put(RESULTS, result) for result in results]:
        done(future)


def ids(results: list[Result]) -> list[str]:
    return [one.job for one in results]


class ResultsContract:
    def test_a_result_is_read_back_equal_and_replaces_the_one_before(self, store: Store) -> None:
        kept(store, a_full_result("j1"), a_result("j2", ended_at=11.0))
        kept(store, replace(a_full_result("j1"), queue=QueueName("audio"), ended_at=12.0))
        assert store.get(RESULTS, JobId("j1")) == replace(
            a_full_result("j1"), queue=QueueName("audio"), ended_at=12.0
        )
        assert ids(store.find(RESULTS)) == ["j1", "j2"]
        assert ids(store.find(RESULTS, queue=QueueName("audio"))) == ["j1"]

    def test_a_result_that_is_not_there_is_not_found(self, store: Store) -> None:
        stored(store, a_job("j1", phase=Phase.SUCCEEDED))
        with pytest.raises(NotFound, match="j1"):
            store.get(RESULTS, JobId("j1"))

    @pytest.mark.parametrize("figure", [float("nan"), float("inf")])
    def test_a_result_that_could_not_be_read_back_is_refused(self, store: Store, figure: float) -> None:
        with pytest.raises(BadInput):
            kept(store, replace(a_result("j1"), metrics=(Metric("loss", figure, 0.0, 1.0),)))
        assert store.find(RESULTS) == []

    def test_results_come_last_ended_first_by_user_queue_and_name(self, store: Store) -> None:
        kept(
            store,
            a_result("ja", ended_at=2.0, user=ADA, queue="a", name="x"),
            a_result("jc", ended_at=1.0, user=BOB, queue="a", name="y"),
            a_result("jb", ended_at=2.0, user=ADA, queue="b", name="y"),
        )
        assert ids(store.find(RESULTS)) == ["jb", "ja", "jc"]
        assert ids(store.find(RESULTS, user=ADA)) == ["jb", "ja"]
        assert ids(store.find(RESULTS, queue=QueueName("a"))) == ["ja", "jc"]
        assert ids(store.find(RESULTS, name="y")) == ["jb", "jc"]
        assert ids(store.find(RESULTS, user=ADA, queue=QueueName("b"), name="x")) == []

    @pytest.mark.parametrize("limit", [1, 3, 100])
    def test_pages_of_results_joined_are_the_whole_listing(self, store: Store, limit: int) -> None:
        times = [0.1 + 0.2, 0.3, 1763000000.1234567, 1763000000.1234569]
        kept(store, *(a_result(f"j{n}", ended_at=times[n % 4]) for n in range(10)))
        pages: list[Result] = []
        after = None
        while page := store.find(RESULTS, limit=limit, after=after):
            assert len(page) <= limit
            pages += page
            after = page[-1].ended_at, page[-1].job
        assert pages == store.find(RESULTS)
        assert len(pages) == 10
        assert store.find(RESULTS, limit=0) == []

    def test_of_a_key_the_last_one_that_succeeded_is_found_and_only_its_own_users(self, store: Store) -> None:
        kept(
            store,
            a_result("j1", ended_at=1.0, key="k"),
            a_result("j2", ended_at=2.0, key="k"),
            a_result("j3", ended_at=3.0, key="k", phase=Phase.FAILED),
            a_result("j4", ended_at=4.0, key="k", user=BOB),
            a_result("j5", ended_at=5.0, key="other"),
            a_result("j6", ended_at=6.0),
        )
        found = result_by_key(store, ADA, "k")
        assert found is not None
        assert found.job == "j2"
        assert result_by_key(store, ADA, "none") is None
        assert result_by_key(store, ADA, "") is None

    def test_jobs_that_ended_without_a_result_are_found(self, store: Store) -> None:
        stored(store, *(a_job(f"j{phase.value}", phase=phase) for phase in Phase))
        ended = {"jsucceeded", "jfailed", "jstopped"}
        assert {job.id for job in store.without_result(99)} == ended
        assert len(store.without_result(2)) == 2
        kept(store, a_result("jfailed"))
        assert {job.id for job in store.without_result(99)} == ended - {"jfailed"}

    def test_results_outlast_their_jobs_until_their_own_time_comes(self, store: Store) -> None:
        old = replace(a_job("j1", phase=Phase.SUCCEEDED, submitted_at=0.0), ended_at=1.0)
        stored(store, old)
        kept(store, a_result("j1", ended_at=1.0))
        assert done(store.prune(PruneLimits(events_before=0.0, jobs_before=2.0))) == 1
        assert ids(store.find(RESULTS)) == ["j1"]
        assert done(store.prune(PruneLimits(events_before=0.0, jobs_before=2.0, results_before=1.0))) == 0
        assert done(store.prune(PruneLimits(events_before=0.0, jobs_before=2.0, results_before=2.0))) == 1
        assert store.find(RESULTS) == []

    def test_a_result_never_goes_before_its_job(self, store: Store) -> None:
        stored(store, replace(a_job("j1", phase=Phase.SUCCEEDED, submitted_at=0.0), ended_at=1.0))
        kept(store, a_result("j1", ended_at=1.0))
        assert done(store.prune(PruneLimits(events_before=0.0, jobs_before=0.5, results_before=9.0))) == 0
        assert ids(store.find(RESULTS)) == ["j1"]
        assert done(store.prune(PruneLimits(events_before=0.0, jobs_before=2.0, results_before=9.0))) == 2
        assert store.find(RESULTS) == []
