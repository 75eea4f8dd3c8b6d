"""What a Store promises of jobs that are created together, where it can: all of them are stored, or none."""

import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from grus.model.errors import BadInput, Conflict, Fenced
from grus.model.interfaces import Event, NewJob, Store
from grus.model.jobs import Job, Phase
from tests.store.builders import BOB, Heard, a_job, an_event, done, stored


def some(*ids: str, key: str | None = "k", name: str = "resnet", at: float = 1000.0) -> list[NewJob]:
    """New jobs with a key each."""
    jobs = [a_job(id_, name=name, submitted_at=at + n) for n, id_ in enumerate(ids)]
    return [
        NewJob(job, an_event(job, job.id), None if key is None else f"{key}-{n}")
        for n, job in enumerate(jobs)
    ]


class TogetherContract:
    """`store` is empty and open; whoever provides it closes it."""

    def test_jobs_created_together_are_all_stored_in_their_order(self, store: Store) -> None:
        new = some("j3", "j1", "j2")
        result = done(store.create_all(new))
        assert result == [replace(one.job, version=1) for one in new]
        assert store.jobs() == result[::-1]
        assert [event.kind for event in store.events()] == ["j3", "j1", "j2"]

    def test_listeners_hear_of_all_of_them_at_once_in_the_order_of_the_log(self, store: Store) -> None:
        calls: list[Heard] = []
        found: list[int] = []

        def listen(written: Sequence[tuple[Job, Event | None]]) -> None:
            calls.append(list(written))
            found.append(len(store.jobs()))

        store.subscribe(listen)
        jobs = done(store.create_all(some("j3", "j1", "j2")))
        assert calls == [list(zip(jobs, store.events(), strict=True))]
        assert found == [3]

    @pytest.mark.parametrize("wrong", [0, 1, 2])
    def test_one_that_is_refused_keeps_all_of_them_out(self, store: Store, wrong: int) -> None:
        [there] = stored(store, a_job("there"))
        heard: Heard = []
        store.subscribe(heard.extend)
        new = some("j0", "j1", "j2")
        new[wrong] = replace(new[wrong], job=replace(new[wrong].job, id=there.id))
        with pytest.raises(Conflict, match="there"):
            done(store.create_all(new))
        assert (store.jobs(), len(store.events()), heard) == ([there], 1, [])

    def test_a_key_that_stands_for_another_request_keeps_all_of_them_out(self, store: Store) -> None:
        [there] = done(store.create_all(some("j1", name="other")))
        for new in (some("j2", "j3"), some("j2", "j3")[::-1]):
            with pytest.raises(Conflict, match="k-0"):
                done(store.create_all(new))
        assert store.jobs() == [there]

    def test_what_cannot_be_read_back_keeps_all_of_them_out(self, store: Store) -> None:
        first, second = some("j1", "j2")
        bad = replace(second, job=replace(second.job, not_before=float("inf")))
        with pytest.raises(BadInput):
            done(store.create_all([first, bad]))
        assert store.jobs() == []

    def test_an_earlier_epoch_creates_none_of_them(self, store: Store) -> None:
        old = store.take_over()
        assert len(done(store.create_all(some("j1", "j2"), epoch=old))) == 2
        store.take_over()
        for late in (some("j1", "j2"), some("j3", "j4", key="l")):
            with pytest.raises(Fenced):
                done(store.create_all(late, epoch=old))
        assert {job.id for job in store.jobs()} == {"j1", "j2"}

    def test_refused_ones_do_not_use_up_their_keys_or_ids(self, store: Store) -> None:
        stored(store, a_job("there"))
        refused = store.create_all(some("j1", "there"))
        accepted = store.create_all(some("j1", "j2"))
        with pytest.raises(Conflict):
            done(refused)
        assert [job.id for job in done(accepted)] == ["j1", "j2"]
        assert [event.seq for event in store.events()] == [1, 2, 3]

    def test_refused_ones_never_undo_their_neighbours(self, store: Store) -> None:
        stored(store, a_job("there"))
        futures = [
            store.create_all(some(f"a{n}", "there" if n % 3 == 0 else f"b{n}", key=f"k{n}"))
            for n in range(150)
        ]
        refused = {n for n, future in enumerate(futures) if future.exception(timeout=300) is not None}
        assert refused == set(range(0, 150, 3))
        assert len(store.jobs()) == len(store.events()) == 1 + 200
        assert {int(job.id[1:]) for job in store.jobs() if job.id != "there"}.isdisjoint(refused)

    def test_a_repetition_finds_them_as_they_are_now_and_writes_nothing(self, store: Store) -> None:
        first, second = done(store.create_all(some("j1", "j2")))
        now = done(store.replace(replace(first, phase=Phase.STARTING), None))
        assert done(store.create_all(some("j8", "j9"))) == [now, second]
        assert (len(store.jobs()), len(store.events())) == (2, 2)

    @pytest.mark.parametrize("there", [(0,), (1,), (0, 2)])
    def test_a_repetition_completes_what_is_there_in_part(self, store: Store, there: tuple[int, ...]) -> None:
        new = some("j0", "j1", "j2")
        for n in there:
            done(store.create(new[n].job, new[n].event, new[n].key))
        assert [job.id for job in done(store.create_all(new))] == ["j0", "j1", "j2"]
        assert {job.id for job in store.jobs()} == {"j0", "j1", "j2"}
        assert len(store.events()) == 3

    def test_many_at_once_with_the_same_keys_are_stored_once(self, store: Store) -> None:
        futures = [store.create_all(some(f"a{n}", f"b{n}")) for n in range(20)]
        assert {tuple(job.id for job in done(future)) for future in futures} == {("a0", "b0")}
        assert len(store.jobs()) == 2

    def test_keys_belong_to_their_users(self, store: Store) -> None:
        first, second = some("j1", "j2")
        done(store.create_all([first, replace(second, job=replace(second.job, user=BOB), key=first.key)]))
        assert len(store.jobs()) == 2

    def test_none_of_them_is_a_repetition_of_another(self, store: Store) -> None:
        first, second = some("j1", "j2")
        for twice in ([first, replace(second, job=first.job)], [first, replace(second, key=first.key)]):
            with pytest.raises(Conflict):
                done(store.create_all(twice))
        with pytest.raises(BadInput):
            done(store.create_all([]))
        assert store.jobs() == []

    def test_more_of_them_than_any_submission_has_are_stored_at_once(self, store: Store) -> None:
        stored(store, *(a_job() for _ in range(10)))
        new = some(*(f"j{n}" for n in range(600)), key=None)
        assert len(done(store.create_all(new))) == 600
        assert len(store.jobs()) == 610

    def test_nobody_ever_reads_a_part_of_them(self, store: Store) -> None:
        over = threading.Event()
        seen: set[int] = set()

        def read() -> None:
            while not over.is_set():
                seen.add(sum(store.count().values()) % 5)

        reader = threading.Thread(target=read)
        reader.start()
        for n in range(40):
            done(store.create_all(some(*(f"j{n}-{m}" for m in range(5)), key=f"k{n}")))
        over.set()
        reader.join(timeout=300)
        assert seen == {0}
