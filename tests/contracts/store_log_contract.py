"""What every Store promises of its log and its listeners; a part of `StoreContract`."""

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace

import pytest

from grus.model.errors import NotFound
from grus.model.interfaces import Event, Store
from grus.model.jobs import Job
from tests.store.builders import Heard, a_job, an_event, done, stored


class LogContract:
    """`store` is empty and open; whoever provides it closes it."""

    # ------------------------------------------------------------------------------------------- events

    def test_events_are_numbered_without_gaps_or_repeats(self, store: Store) -> None:
        jobs = stored(store, *(a_job() for _ in range(5)))
        futures = [
            store.replace(replace(job, version=n), an_event(job, "tick")) for n, job in enumerate(jobs)
        ]
        assert sum(future.exception(timeout=300) is None for future in futures) == 1
        stored(store, a_job())
        seqs = [event.seq for event in store.events()]
        assert seqs == list(range(seqs[0], seqs[0] + 7))

    def test_an_event_reads_back_as_given_but_for_its_number(self, store: Store) -> None:
        job = a_job()
        given = Event(
            at=1763000000.1234567,
            kind="submitted",
            text="ü\n",
            job=job.id,
            attempt=3,
            seq=77,
            generation=2,
            held=1_500_000,
            working=1_000_000,
            lost=2,
        )
        done(store.create(job, given))
        [event] = store.events()
        assert replace(event, seq=77) == given

    def test_events_are_read_from_a_number_on_by_job_and_with_a_limit(self, store: Store) -> None:
        one, two = stored(store, a_job("j1"), a_job("j2"))
        for n in range(1, 4):
            done(store.replace(replace(one, version=n), an_event(one, f"tick{n}")))
        everything = store.events()
        assert [event.seq for event in everything] == sorted(event.seq for event in everything)
        assert store.events(after=everything[2].seq) == everything[3:]
        assert [event.kind for event in store.events(job=two.id)] == ["submitted"]
        assert store.events(limit=2) == everything[:2]
        mine = store.events(job=one.id)
        assert store.events(job=one.id, after=mine[0].seq, limit=2) == mine[1:3]

    # ---------------------------------------------------------------------------------------- listeners

    def test_listeners_hear_every_write_in_the_order_of_the_log(self, store: Store) -> None:
        heard: Heard = []
        store.subscribe(heard.extend)
        jobs = stored(store, *(a_job() for _ in range(20)))
        [done(future) for future in [store.replace(job, an_event(job, "tick")) for job in jobs]]
        silent = done(store.replace(replace(jobs[0], version=2), None))
        assert [event for _, event in heard if event] == store.events()
        assert heard[-1] == (silent, None)
        assert [job.version for job, _ in heard] == [1] * 20 + [2] * 20 + [3]

    def test_when_a_future_is_done_the_listeners_have_heard(self, store: Store) -> None:
        heard: Heard = []
        store.subscribe(heard.extend)
        for n in range(1, 50):
            [job] = stored(store, a_job())
            assert heard[-1][0] == job
            assert len(heard) == n

    def test_a_listener_finds_what_it_hears_of_in_the_store(self, store: Store) -> None:
        seen: list[bool] = []
        store.subscribe(
            lambda written: seen.extend(store.job(job.id).version >= job.version for job, _ in written)
        )
        stored(store, *(a_job() for _ in range(10)))
        assert seen == [True] * 10

    def test_refused_writes_and_repeated_keys_are_not_told(self, store: Store) -> None:
        done(store.create(a_job("j1"), an_event(), key="k"))
        heard: Heard = []
        store.subscribe(heard.extend)
        done(store.create(a_job("j2"), an_event(), key="k"))
        with pytest.raises(NotFound):
            done(store.replace(a_job("jnone"), an_event()))
        assert heard == []

    def test_who_has_left_hears_nothing_more(self, store: Store) -> None:
        heard: Heard = []
        leave = store.subscribe(heard.extend)
        stored(store, a_job())
        leave()
        leave()
        stored(store, a_job())
        assert len(heard) == 1

    def test_a_failing_listener_stops_neither_the_store_nor_the_others(
        self, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        heard: Heard = []

        def fail(written: Sequence[tuple[Job, Event | None]]) -> None:
            raise RuntimeError("not today")

        store.subscribe(fail)
        store.subscribe(heard.extend)
        with caplog.at_level(logging.ERROR):
            stored(store, a_job(), a_job())
        assert len(heard) == len(store.jobs()) == 2
        assert "not today" in caplog.text

    def test_a_listener_may_write(self, store: Store) -> None:
        heard: Heard = []
        written: list[Future[Job]] = []

        def follow(writes: Sequence[tuple[Job, Event | None]]) -> None:
            written.extend(store.replace(job, an_event(job, "seen")) for job, _ in writes if job.version == 1)

        store.subscribe(follow)
        store.subscribe(heard.extend)
        stored(store, a_job(), a_job())
        assert [done(future).version for future in written] == [2, 2]
        assert [event for _, event in heard if event] == store.events()

    def test_who_listens_and_then_reads_misses_nothing(self, store: Store) -> None:
        ids = [f"j{n:03}" for n in range(200)]
        writing = threading.Thread(target=lambda: stored(store, *(a_job(id) for id in ids)))
        writing.start()
        heard: Heard = []
        leave = store.subscribe(heard.extend)
        known = {job.id for job in store.jobs()}
        writing.join(timeout=300)
        leave()
        assert known | {job.id for job, _ in heard} == set(ids)
