"""What every Store promises, as tests: inherit `StoreContract` and give it a fixture `store`.

Each test is a sentence of the docstrings in `grus.model.interfaces.Store`.
"""

import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from grus.model.activity_labels import Tag, WorkloadKind, of_gpu, of_job
from grus.model.errors import BadInput, Conflict, Fenced, NotFound, StaleVersion
from grus.model.identifiers import DeviceId, JobId, NodeId, QueueName
from grus.model.interfaces import (
    CORDONS,
    MOST_PROFILES,
    PREDICTIONS,
    PROFILES,
    QUEUES,
    REPORTS,
    TOKENS,
    USERS,
    AccessRole,
    Prediction,
    PruneLimits,
    Store,
    Token,
    User,
)
from grus.model.jobs import NEXT, TERMINAL, Job, Phase, Sizing
from grus.model.metrics_history import MOST_POINTS
from grus.model.nodes import Cordon
from grus.model.profiles import JobProfile
from grus.model.queues import Queue, Quota
from grus.model.resources import GPU, Range, Replica, Request, Role
from tests.contracts.store_audit_contract import AuditContract
from tests.contracts.store_log_contract import LogContract
from tests.contracts.store_results_contract import ResultsContract
from tests.store.builders import (
    ADA,
    BOB,
    a_full_job,
    a_full_profile,
    a_job,
    a_report,
    a_spec,
    an_event,
    cordoned,
    done,
    stored,
)


class StoreContract(AuditContract, LogContract, ResultsContract):
    """The promises. `store` is empty and open; whoever provides it closes it."""

    # ------------------------------------------------------------------------------------------- create

    def test_a_created_job_has_version_one_and_reads_back_equal(self, store: Store) -> None:
        given = a_full_job()
        result = done(store.create(given, an_event(given)))
        assert result == replace(given, version=1)
        assert store.job(given.id) == result
        assert store.jobs() == [result]

    def test_an_id_is_used_once(self, store: Store) -> None:
        [first] = stored(store, a_job("j1"))
        with pytest.raises(Conflict):
            done(store.create(a_job("j1", name="other"), an_event()))
        assert store.job(first.id) == first
        assert len(store.events()) == 1

    def test_a_repeated_key_gives_the_first_job_as_it_is_now_and_writes_nothing(self, store: Store) -> None:
        first = done(store.create(a_job("j1"), an_event(), key="k"))
        now = done(store.replace(replace(first, phase=Phase.STARTING), None))
        again = done(store.create(a_job("j2"), an_event(), key="k"))
        assert again == now
        assert [job.id for job in store.jobs()] == ["j1"]
        assert len(store.events()) == 1

    def test_a_repeated_key_given_at_once_with_a_change_gives_the_job_after_the_change(
        self, store: Store
    ) -> None:
        job = done(store.create(a_job("j1"), an_event(), key="k"))
        futures = [
            store.replace(replace(job, reason="changed"), None),
            store.create(a_job("j2"), an_event(), key="k"),
        ]
        assert done(futures[0]) == done(futures[1])

    def test_a_repeated_key_with_another_spec_is_a_conflict(self, store: Store) -> None:
        done(store.create(a_job("j1", name="one"), an_event(), key="k"))
        with pytest.raises(Conflict, match="k"):
            done(store.create(a_job("j2", name="two"), an_event(), key="k"))
        assert [job.id for job in store.jobs()] == ["j1"]

    def test_a_repeated_key_stands_for_a_job_whatever_grus_made_of_its_request(self, store: Store) -> None:
        asked = a_job("j1")
        role = Role("worker", Range(1, 1), Replica(gpus=0, gpu_memory=3 << 30))
        larger = replace(asked.spec, request=Request((role,)))
        first = replace(asked, spec=larger, sizing=Sizing(asked=asked.spec.request))
        done(store.create(first, an_event(), key="k"))
        assert done(store.create(a_job("j2"), an_event(), key="k")).id == "j1"

    def test_a_key_belongs_to_its_user(self, store: Store) -> None:
        done(store.create(a_job("j1", user=ADA), an_event(), key="k"))
        done(store.create(a_job("j2", user=BOB), an_event(), key="k"))
        assert {job.id for job in store.jobs()} == {"j1", "j2"}

    def test_a_refused_create_does_not_use_up_its_key(self, store: Store) -> None:
        stored(store, a_job("j1"))
        with pytest.raises(Conflict):
            done(store.create(a_job("j1"), an_event(), key="k"))
        assert done(store.create(a_job("j2"), an_event(), key="k")).id == "j2"

    def test_many_at_once_with_one_key_make_one_job(self, store: Store) -> None:
        futures = [store.create(a_job(f"j{n}"), an_event(), key="k") for n in range(50)]
        assert {done(future).id for future in futures} == {"j0"}
        assert len(store.jobs()) == len(store.events()) == 1

    @pytest.mark.parametrize(
        "bad",
        [
            {"progress": (("loss", float("nan")),)},
            {"not_before": float("inf")},
            {"ended_at": float("inf")},
            {"reason": "\ud800"},
        ],
    )
    def test_what_cannot_be_read_back_is_refused_and_harms_nobody(
        self, store: Store, bad: dict[str, object]
    ) -> None:
        futures = [
            store.create(a_job("j1"), an_event()),
            store.create(replace(a_job("j2"), **bad), an_event()),  # type: ignore[arg-type]  # keywords of many types
            store.create(a_job("j3"), an_event()),
        ]
        with pytest.raises(BadInput):
            done(futures[1])
        assert [done(futures[0]).id, done(futures[2]).id] == ["j1", "j3"]
        assert {job.id for job in store.jobs()} == {"j1", "j3"}

    # ------------------------------------------------------------------------------------------ replace

    def test_a_replace_writes_the_job_with_its_event_and_the_next_version(self, store: Store) -> None:
        [job] = stored(store, a_job())
        wanted = replace(job, phase=Phase.STARTING, attempt=1, reason="there is room")
        result = done(store.replace(wanted, an_event(job, "starting")))
        assert result == replace(wanted, version=2)
        assert store.job(job.id) == result
        assert [event.kind for event in store.events(job=job.id)] == ["submitted", "starting"]

    def test_a_replace_without_event_leaves_the_log_alone(self, store: Store) -> None:
        [job] = stored(store, a_job())
        done(store.replace(replace(job, reason="waits"), None))
        assert store.job(job.id).reason == "waits"
        assert len(store.events()) == 1

    def test_a_stale_replace_is_refused_and_writes_nothing(self, store: Store) -> None:
        [job] = stored(store, a_job())
        newer = done(store.replace(replace(job, reason="first"), None))
        with pytest.raises(StaleVersion):
            done(store.replace(replace(job, reason="second"), an_event(job)))
        assert store.job(job.id) == newer
        assert len(store.events()) == 1

    @pytest.mark.parametrize("version", [0, 2, 99])
    def test_a_version_that_is_not_the_stored_one_is_stale(self, store: Store, version: int) -> None:
        [job] = stored(store, a_job())
        with pytest.raises(StaleVersion):
            done(store.replace(replace(job, version=version), None))

    @pytest.mark.parametrize("version", [0, 1])
    def test_replacing_a_job_that_is_not_there_is_not_found(self, store: Store, version: int) -> None:
        with pytest.raises(NotFound):
            done(store.replace(replace(a_job(), version=version), an_event()))
        assert store.events() == []

    @pytest.mark.parametrize("before", list(Phase))
    def test_only_legal_changes_of_phase_are_written(self, store: Store, before: Phase) -> None:
        for after in Phase:
            [job] = stored(store, a_job(phase=before))
            future = store.replace(replace(job, phase=after), an_event(job))
            if after is before or after in NEXT[before]:
                assert done(future).phase is after
            else:
                with pytest.raises(Conflict):
                    done(future)
                assert store.job(job.id) == job

    def test_user_queue_and_time_of_submission_never_change(self, store: Store) -> None:
        [job] = stored(store, a_job())
        for changed in (
            replace(job, user=BOB),
            replace(job, submitted_at=job.submitted_at + 1),
            replace(job, spec=a_spec(queue="other")),
        ):
            with pytest.raises(Conflict):
                done(store.replace(changed, None))
        assert store.job(job.id) == job

    def test_writes_of_one_thread_take_effect_in_order(self, store: Store) -> None:
        job = a_job()
        futures = [store.create(job, an_event(job))]
        futures += [
            store.replace(replace(job, version=n, reason=str(n)), an_event(job, str(n)))
            for n in range(1, 300)
        ]
        assert [done(future).version for future in futures] == list(range(1, 301))
        assert store.job(job.id).reason == "299"
        assert [event.kind for event in store.events()] == ["submitted", *map(str, range(1, 300))]

    def test_a_refused_write_never_undoes_its_neighbours(self, store: Store) -> None:
        jobs = stored(store, *(a_job(f"j{n:03}") for n in range(300)))
        futures = [
            store.replace(replace(job, version=99 if n % 3 == 0 else 1, reason="new"), an_event(job, "new"))
            for n, job in enumerate(jobs)
        ]
        refused = {n for n, future in enumerate(futures) if future.exception(timeout=300) is not None}
        assert refused == set(range(0, 300, 3))
        assert {int(job.id[1:]) for job in store.jobs() if job.reason != "new"} == refused
        assert len(store.events()) == 300 + 200

    def test_of_many_threads_with_the_same_version_one_wins(self, store: Store) -> None:
        [job] = stored(store, a_job())
        won: list[str] = []
        barrier = threading.Barrier(8)

        def race(name: str) -> None:
            barrier.wait(timeout=300)
            try:
                won.append(done(store.replace(replace(job, reason=name), an_event(job, name))).reason)
            except StaleVersion:
                return

        threads = [threading.Thread(target=race, args=(str(n),)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=300)
        assert won == [store.job(job.id).reason]
        assert len(store.events()) == 2

    # ------------------------------------------------------------------------------------------- epochs

    def test_epochs_rise(self, store: Store) -> None:
        epochs = [store.take_over() for _ in range(3)]
        assert epochs == sorted(set(epochs))

    def test_an_earlier_epoch_is_fenced_and_writes_nothing(self, store: Store) -> None:
        [job] = stored(store, a_job())
        old = store.take_over()
        job = done(store.replace(replace(job, reason="old"), None, epoch=old))
        new = store.take_over()
        with pytest.raises(Fenced):
            done(store.replace(replace(job, reason="late"), an_event(job), epoch=old))
        assert store.job(job.id) == job
        assert done(store.replace(replace(job, reason="new"), None, epoch=new)).reason == "new"

    def test_an_earlier_epoch_creates_nothing_and_does_not_hear_what_a_key_stands_for(
        self, store: Store
    ) -> None:
        old = store.take_over()
        job = a_job()
        assert done(store.create(job, an_event(job), "key", epoch=old)).version == 1
        store.take_over()
        for late in (job, a_job()):
            with pytest.raises(Fenced):
                done(store.create(late, an_event(late), "key", epoch=old))
        assert [one.id for one in store.jobs()] == [job.id]

    def test_a_write_without_epoch_is_not_fenced(self, store: Store) -> None:
        [job] = stored(store, a_job())
        store.take_over()
        store.take_over()
        assert done(store.replace(replace(job, reason="a person"), None)).version == 2

    def test_a_fenced_writer_hears_that_first_whatever_else_is_wrong(self, store: Store) -> None:
        old = store.take_over()
        store.take_over()
        with pytest.raises(Fenced):
            done(store.replace(a_job(), None, epoch=old))

    # --------------------------------------------------------------------------------------------- read

    def test_an_unknown_job_is_not_found(self, store: Store) -> None:
        with pytest.raises(NotFound, match="jnone"):
            store.job(JobId("jnone"))

    def test_jobs_come_newest_first_and_ties_by_id_descending(self, store: Store) -> None:
        stored(store, a_job("ja", submitted_at=2), a_job("jc", submitted_at=1), a_job("jb", submitted_at=2))
        assert [job.id for job in store.jobs()] == ["jb", "ja", "jc"]

    def test_jobs_are_filtered_by_phase_queue_and_user(self, store: Store) -> None:
        stored(
            store,
            a_job("j1", queue="a", user=ADA, submitted_at=1),
            a_job("j2", queue="b", user=ADA, submitted_at=2, phase=Phase.RUNNING),
            a_job("j3", queue="a", user=BOB, submitted_at=3, phase=Phase.FAILED),
        )

        def ids(jobs: Sequence[Job]) -> list[str]:
            return [job.id for job in jobs]

        assert ids(store.jobs(phases=[Phase.PENDING, Phase.FAILED])) == ["j3", "j1"]
        assert ids(store.jobs(phases=[])) == []
        assert ids(store.jobs(queue=QueueName("a"))) == ["j3", "j1"]
        assert ids(store.jobs(user=ADA)) == ["j2", "j1"]
        assert ids(store.jobs(phases=[Phase.PENDING], queue=QueueName("a"), user=ADA)) == ["j1"]
        assert ids(store.jobs(phases=[Phase.PENDING], queue=QueueName("a"), user=BOB)) == []

    def test_a_filter_sees_the_phase_as_it_is_now(self, store: Store) -> None:
        [job] = stored(store, a_job())
        done(store.replace(replace(job, phase=Phase.STARTING), None))
        assert store.jobs(phases=[Phase.PENDING]) == []
        assert len(store.jobs(phases=[Phase.STARTING])) == 1

    @pytest.mark.parametrize("limit", [1, 3, 7, 100])
    def test_pages_joined_are_the_whole_listing(self, store: Store, limit: int) -> None:
        # Times that have no short decimal form, so that the cursor must be exact.
        times = [0.1 + 0.2, 0.3, 1763000000.1234567, 1763000000.1234569, 1 / 3]
        stored(store, *(a_job(submitted_at=times[n % 5]) for n in range(20)))
        pages: list[Job] = []
        after = None
        while page := store.jobs(limit=limit, after=after):
            assert len(page) <= limit
            pages += page
            after = page[-1].submitted_at, page[-1].id
        assert pages == store.jobs()
        assert len(pages) == 20

    def test_a_limit_of_none_is_no_limit_and_of_zero_is_nothing(self, store: Store) -> None:
        stored(store, *(a_job() for _ in range(3)))
        assert len(store.jobs()) == 3
        assert store.jobs(limit=0) == []

    def test_count_is_by_phase(self, store: Store) -> None:
        assert sum(store.count().values()) == 0
        stored(store, a_job(), a_job(), a_job(phase=Phase.RUNNING))
        counts = {phase: jobs for phase, jobs in store.count().items() if jobs}
        assert counts == {Phase.PENDING: 2, Phase.RUNNING: 1}

    # ----------------------------------------------------------------------------- queues, users, nodes

    def test_queues_are_put_overwritten_and_deleted(self, store: Store) -> None:
        vision = Queue(
            name=QueueName("vision"), quota=Quota.of({"A100": 4, "any": 2}), members=(ADA,), limit=8 * GPU
        )
        done(store.put(QUEUES, vision))
        done(store.put(QUEUES, Queue(name=QueueName("audio"))))
        assert store.find(QUEUES) == [Queue(name=QueueName("audio")), vision]
        done(store.put(QUEUES, replace(vision, weight=2.5)))
        assert store.find(QUEUES)[1].weight == 2.5
        done(store.delete(QUEUES, QueueName("vision")))
        assert [queue.name for queue in store.find(QUEUES)] == ["audio"]

    def test_deleting_a_queue_that_is_not_there_is_not_found(self, store: Store) -> None:
        with pytest.raises(NotFound, match="vision"):
            done(store.delete(QUEUES, QueueName("vision")))

    def test_deleting_a_user_removes_its_tokens(self, store: Store) -> None:
        done(store.put(USERS, User(name=ADA, role=AccessRole.ADMIN)))
        done(store.put(USERS, User(name=BOB, unix_user="bob")))
        for digest, user in (("d1", ADA), ("d2", BOB), ("d3", ADA)):
            done(
                store.put(
                    TOKENS, Token(digest=digest, user=user, label="laptop", created_at=1.5, expires_at=2.5)
                )
            )
        assert [user.name for user in store.find(USERS)] == [ADA, BOB]
        assert [token.digest for token in store.find(TOKENS)] == ["d1", "d2", "d3"]
        done(store.delete(USERS, ADA))
        assert store.find(USERS) == [User(name=BOB, unix_user="bob")]
        assert [token.digest for token in store.find(TOKENS)] == ["d2"]

    def test_overwriting_a_user_keeps_its_tokens(self, store: Store) -> None:
        done(store.put(USERS, User(name=ADA)))
        done(store.put(TOKENS, Token(digest="d", user=ADA, label="x", created_at=1.0)))
        done(store.put(USERS, User(name=ADA, role=AccessRole.VIEWER)))
        assert store.find(USERS)[0].role is AccessRole.VIEWER
        assert len(store.find(TOKENS)) == 1

    def test_a_token_needs_its_user(self, store: Store) -> None:
        with pytest.raises(NotFound, match="ada"):
            done(store.put(TOKENS, Token(digest="d", user=ADA, label="x", created_at=1.0)))

    def test_tokens_are_deleted_one_by_one(self, store: Store) -> None:
        done(store.put(USERS, User(name=ADA)))
        for digest in ("d1", "d2"):
            done(store.put(TOKENS, Token(digest=digest, user=ADA, label="x", created_at=1.0)))
        done(store.delete(TOKENS, "d1"))
        assert [token.digest for token in store.find(TOKENS)] == ["d2"]
        with pytest.raises(NotFound):
            done(store.delete(TOKENS, "d1"))
        with pytest.raises(NotFound):
            done(store.delete(USERS, BOB))

    def test_nodes_are_cordoned_and_uncordoned(self, store: Store) -> None:
        for node in ("n1", "n2", "n2"):
            done(store.put(CORDONS, Cordon(NodeId(node))))
        assert cordoned(store) == {"n1", "n2"}
        for node in ("n1", "n9"):
            done(store.delete(CORDONS, NodeId(node)))
        assert cordoned(store) == {"n2"}

    # -------------------------------------------------------------------------------------- predictions

    def test_predictions_are_read_back_newest_first(self, store: Store) -> None:
        stored(store, a_job("j1"), a_job("j2"), a_job("j3"))
        made = [
            Prediction(job=JobId(f"j{n}"), at=float(n), start=(1.0, 2.5), end=(3.0, 1e12)) for n in (1, 2, 3)
        ]
        done(store.put(PREDICTIONS, *made[:2]))
        done(store.put(PREDICTIONS, *made[2:]))
        assert store.find(PREDICTIONS, limit=10) == made[::-1]
        assert store.find(PREDICTIONS, limit=2) == made[:0:-1]

    def test_the_first_prediction_of_a_job_stays(self, store: Store) -> None:
        stored(store, a_job("j1"))
        first, second = (Prediction(job=JobId("j1"), at=at, end=(at,)) for at in (1.0, 2.0))
        done(store.put(PREDICTIONS, first))
        done(store.put(PREDICTIONS, second))
        assert store.find(PREDICTIONS, limit=10) == [first]

    def test_a_prediction_of_a_job_that_is_gone_is_dropped_and_its_neighbours_are_kept(
        self, store: Store
    ) -> None:
        stored(store, a_job("j1"))
        kept, lost = (Prediction(job=JobId(job), at=1.0) for job in ("j1", "gone"))
        done(store.put(PREDICTIONS, lost, kept))
        assert store.find(PREDICTIONS, limit=10) == [kept]

    def test_a_prediction_that_could_not_be_read_back_is_refused(self, store: Store) -> None:
        stored(store, a_job("j1"))
        with pytest.raises(BadInput):
            done(store.put(PREDICTIONS, Prediction(job=JobId("j1"), at=1.0, end=(float("inf"),))))
        assert store.find(PREDICTIONS, limit=10) == []

    def test_predictions_go_with_their_jobs(self, store: Store) -> None:
        stored(
            store, replace(a_job("j1", phase=Phase.SUCCEEDED, submitted_at=0.0), ended_at=1.0), a_job("j2")
        )
        done(store.put(PREDICTIONS, *(Prediction(job=JobId(job), at=1.0) for job in ("j1", "j2"))))
        assert done(store.prune(PruneLimits(events_before=0.0, jobs_before=2.0))) == 1
        assert [one.job for one in store.find(PREDICTIONS, limit=10)] == ["j2"]

    # -------------------------------------------------------------------------------- profiles and tags

    def test_a_profile_is_read_back_equal_and_replaces_the_one_before(self, store: Store) -> None:
        for count in (1, 2):
            done(store.put(PROFILES, replace(a_full_profile("f1"), count=count)))
        done(store.put(PROFILES, JobProfile(fingerprint="f0")))
        assert store.find(PROFILES) == [JobProfile(fingerprint="f0"), replace(a_full_profile("f1"), count=2)]

    def test_a_profile_that_could_not_be_read_back_is_refused(self, store: Store) -> None:
        with pytest.raises(BadInput):
            done(store.put(PROFILES, JobProfile(fingerprint="f", stall=float("nan"))))
        assert store.find(PROFILES) == []

    def test_beyond_the_bound_the_profile_that_was_updated_first_goes(self, store: Store) -> None:
        oldest = JobProfile(fingerprint="m", updated_at=0.5)
        many = [JobProfile(fingerprint=f"f{n}", updated_at=1.0 + n) for n in range(MOST_PROFILES)]
        for future in [store.put(PROFILES, profile) for profile in (*many[:9], oldest, *many[9:])]:
            done(future)
        assert {profile.fingerprint for profile in store.find(PROFILES)} == {one.fingerprint for one in many}

    def test_profiles_outlast_their_jobs(self, store: Store) -> None:
        stored(store, replace(a_job("j1", phase=Phase.SUCCEEDED, submitted_at=0.0), ended_at=1.0))
        done(store.put(PROFILES, a_full_profile("f")))
        done(store.prune(PruneLimits(events_before=0.0, jobs_before=2.0)))
        assert store.find(PROFILES) == [a_full_profile("f")]

    def test_reports_of_jobs_are_read_back_by_number_and_the_first_one_stays(self, store: Store) -> None:
        stored(store, a_job("j1"))
        full = replace(a_report("j1", 7), figures=(("größe", 1 / 3), ("step", 2.0)), saved_at=0.1 + 0.2)
        done(store.put(REPORTS, full, a_report("j1", 3), a_report("jgone", 0)))
        done(store.put(REPORTS, replace(full, attempt=9)))
        assert store.find(REPORTS, job=JobId("j1")) == [a_report("j1", 3), full]
        assert store.find(REPORTS, job=JobId("jgone")) == []

    def test_a_report_that_could_not_be_read_back_takes_its_neighbours_along(self, store: Store) -> None:
        stored(store, a_job("j1"))
        with pytest.raises(BadInput):
            done(store.put(REPORTS, a_report("j1", 0), replace(a_report("j1", 1), at=float("nan"))))
        assert store.find(REPORTS, job=JobId("j1")) == []

    def test_beyond_the_bound_reports_of_a_job_are_thinned_evenly_but_for_the_newest(
        self, store: Store
    ) -> None:
        stored(store, a_job("j1"), a_job("j2"))
        done(store.put(REPORTS, *(a_report("j2", number) for number in (1, 3))))
        done(store.put(REPORTS, *(a_report("j1", number) for number in range(MOST_POINTS))))
        assert len(store.find(REPORTS, job=JobId("j1"))) == MOST_POINTS
        done(store.put(REPORTS, a_report("j1", MOST_POINTS + 1)))
        kept = [one.number for one in store.find(REPORTS, job=JobId("j1"))]
        assert kept == [*range(0, MOST_POINTS, 2), MOST_POINTS + 1]
        assert [one.number for one in store.find(REPORTS, job=JobId("j2"))] == [1, 3]

    def test_reports_go_with_their_job(self, store: Store) -> None:
        stored(
            store, replace(a_job("j1", phase=Phase.SUCCEEDED, submitted_at=0.0), ended_at=1.0), a_job("j2")
        )
        done(store.put(REPORTS, a_report("j1", 0), a_report("j2", 0)))
        done(store.prune(PruneLimits(events_before=0.0, jobs_before=2.0)))
        assert [store.find(REPORTS, job=JobId(job)) for job in ("j1", "j2")] == [[], [a_report("j2", 0)]]

    def test_tags_are_put_and_taken_away_and_others_stay(self, store: Store) -> None:
        first, second = (
            Tag(kind=kind, at=1.0, expires=2.5) for kind in (WorkloadKind.IDLE, WorkloadKind.TRAINING)
        )
        full = replace(second, period=0.1 + 0.2, boundary=1 / 3, peak_memory=1 << 40, note="größe \x00 \"'")
        assert store.tags() == {}
        done(store.put_tags({of_job(JobId("j1")): first, of_gpu(DeviceId("n/gpu0")): full}))
        done(store.put_tags({of_job(JobId("j1")): second, "job/gone": None}))
        assert store.tags() == {"job/j1": second, "gpu/n/gpu0": full}
        done(store.put_tags({of_gpu(DeviceId("n/gpu0")): None}))
        assert store.tags() == {"job/j1": second}

    def test_a_tag_that_could_not_be_read_back_takes_its_neighbours_along(self, store: Store) -> None:
        good = Tag(kind=WorkloadKind.IDLE, at=1.0, expires=2.0)
        with pytest.raises(BadInput):
            done(store.put_tags({"job/a": good, "job/b": replace(good, expires=float("inf"))}))
        assert store.tags() == {}

    # -------------------------------------------------------------------------------------------- prune

    def test_prune_drops_old_events_and_jobs_that_ended_before(self, store: Store) -> None:
        old = replace(a_job("jold", phase=Phase.SUCCEEDED, submitted_at=0.0), ended_at=10.0)
        new = replace(a_job("jnew", phase=Phase.FAILED, submitted_at=0.0), ended_at=20.0)
        alive = replace(a_job("jrun", phase=Phase.RUNNING, submitted_at=0.0), ended_at=5.0)
        for at, job in enumerate((old, new, alive)):
            done(store.create(job, an_event(job, at=float(at)), key=job.id))
        assert done(store.prune(PruneLimits(events_before=1.0, jobs_before=20.0))) == 2
        assert {job.id for job in store.jobs()} == {"jnew", "jrun"}
        assert [event.at for event in store.events()] == [1.0, 2.0]
        assert done(store.prune(PruneLimits(events_before=1.0, jobs_before=20.0))) == 0

    def test_a_job_that_ended_after_it_was_created_is_pruned_by_its_end(self, store: Store) -> None:
        [job] = stored(store, a_job(submitted_at=0.0))
        done(store.replace(replace(job, phase=Phase.STOPPED, ended_at=5.0), None))
        assert done(store.prune(PruneLimits(events_before=0.0, jobs_before=5.0))) == 0
        assert done(store.prune(PruneLimits(events_before=0.0, jobs_before=6.0))) == 1
        assert store.jobs() == []

    def test_a_job_that_ended_before_it_was_submitted_is_not_old(self, store: Store) -> None:
        """The clock was set back meanwhile: who looks for old jobs by their submits does not see it."""
        stored(store, replace(a_job(phase=Phase.SUCCEEDED, submitted_at=9.0), ended_at=5.0))
        assert done(store.prune(PruneLimits(events_before=0.0, jobs_before=6.0))) == 0
        assert done(store.prune(PruneLimits(events_before=0.0, jobs_before=10.0))) == 1

    def test_a_job_that_is_to_be_kept_is_not_pruned_with_others(self, store: Store) -> None:
        for id_ in ("j1", "j2", "j3"):
            job = replace(a_job(id_, phase=Phase.SUCCEEDED, submitted_at=0.0), ended_at=1.0)
            done(store.create(job, an_event(job, at=1.0), key=id_))
        keep = [JobId("j2"), JobId("jnever")]
        assert done(store.prune(PruneLimits(events_before=2.0, jobs_before=2.0, keep=keep))) == 3 + 2
        assert [job.id for job in store.jobs()] == ["j2"]
        assert done(store.create(a_job("j4"), an_event(), key="j2")).id == "j2"
        assert done(store.prune(PruneLimits(events_before=2.0, jobs_before=2.0))) == 1

    def test_a_pruned_job_frees_its_key(self, store: Store) -> None:
        ended = replace(a_job("j1", phase=next(iter(TERMINAL)), submitted_at=0.0), ended_at=1.0)
        done(store.create(ended, an_event(), key="k"))
        done(store.prune(PruneLimits(events_before=0.0, jobs_before=2.0)))
        assert done(store.create(a_job("j2"), an_event(), key="k")).id == "j2"

    def test_numbers_of_pruned_events_are_never_given_again(self, store: Store) -> None:
        stored(store, a_job(), a_job())
        last = store.events()[-1].seq
        done(store.prune(PruneLimits(events_before=1e12, jobs_before=0.0)))
        assert store.events() == []
        stored(store, a_job())
        assert [event.seq for event in store.events()] == [last + 1]

    # -------------------------------------------------------------------------------------------- close

    def test_close_finishes_what_was_given_and_may_be_repeated(self, store: Store) -> None:
        futures = [store.create(a_job(), an_event()) for _ in range(100)]
        store.close()
        store.close()
        assert all(future.done() and future.exception() is None for future in futures)
