"""A cluster's jobs in several hands: an old and a new leader, people with kubectl, a store that returns."""

from dataclasses import replace
from pathlib import Path

import pytest

from grus.kubernetes.client.api import Api, Object, ResourceKind
from grus.kubernetes.client.resource_kinds import GPU_JOBS
from grus.model.errors import Conflict, Fenced, NotFound, StaleVersion, StoreFailed
from grus.model.identifiers import QueueName
from grus.model.interfaces import QUEUES, PruneLimits
from grus.model.jobs import Phase
from grus.store.kubernetes import job_status_codec
from grus.store.kubernetes.store import KubernetesStore
from tests.kubernetes.clusters import Cluster, until
from tests.kubernetes.store.clusters import NAMESPACE
from tests.kubernetes.store.conftest import Opener
from tests.store.builders import Heard, a_job, an_event, done, stored


def deaf(store: KubernetesStore) -> KubernetesStore:
    """It hears no more of what others write."""
    store.objects.close()
    return store


def events_of(store: KubernetesStore) -> list[str]:
    return [event.kind for event in store.events()]


# ----------------------------------------------------------------------------------------------- two leaders


@pytest.mark.parametrize("hears", [True, False], ids=["that hears of it", "that hears nothing"])
def test_a_new_leader_fences_the_old_one(open_store: Opener, hears: bool) -> None:
    """The fence is in the object: the old store need not know that it was replaced."""
    old = open_store()
    [job, ended] = stored(old, a_job(), a_job(phase=Phase.SUCCEEDED))
    before = old.take_over()
    if not hears:
        deaf(old)
    new = open_store()
    after = new.take_over()
    assert after > before
    with pytest.raises(Fenced):
        done(old.replace(replace(job, reason="late"), an_event(job, "late"), epoch=before))
    assert done(new.replace(replace(job, reason="new"), None, epoch=after)).reason == "new"
    with pytest.raises(StaleVersion):
        done(deaf(old).replace(replace(job, reason="late"), None))
    assert new.job(ended.id) == ended


def test_a_write_between_the_look_and_the_touch_is_not_lost(open_store: Opener) -> None:
    old, new = open_store(), open_store()
    [job] = stored(old, a_job())
    seen = new._sweeper.look()
    job = done(old.replace(replace(job, reason="just in time"), an_event(job, "tick")))
    new._sweeper.take_over(seen, 7)
    until(lambda: new.job(job.id) == job, "the new store knows it")
    assert job_status_codec.epoch(new.objects.objects[NAMESPACE, new.home(job.id).name]) == 7


def test_of_two_that_take_over_with_the_same_epoch_one_is_fenced(open_store: Opener) -> None:
    first, second = open_store(), open_store()
    stored(first, a_job())
    seen = first._sweeper.look()
    first._sweeper.take_over(seen, 5)
    with pytest.raises(Fenced):
        second._sweeper.take_over(seen, 5)


def test_epochs_rise_even_if_the_lease_was_lost(open_store: Opener, empty: Api) -> None:
    store = open_store()
    stored(store, a_job())
    epochs = [store.take_over() for _ in range(3)]
    empty.raw("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/grus-store")
    assert store.take_over() > epochs[-1]


def test_who_does_not_lead_writes_nothing(open_store: Opener) -> None:
    class Lost:
        epoch = 3
        leads = True

        def valid(self) -> bool:
            return self.leads

    leadership = Lost()
    store = open_store(leadership=leadership)
    [job] = stored(store, a_job())
    assert store.take_over() == 3
    leadership.leads = False
    with pytest.raises(StoreFailed):  # it may yet be renewed
        done(store.replace(replace(job, reason="late"), None))
    leadership.epoch = 0
    with pytest.raises(Fenced):
        done(store.replace(replace(job, reason="late"), None))
    with pytest.raises(Fenced):
        done(store.create(a_job(), an_event()))
    assert store.jobs() == [job]


def test_an_object_half_made_by_a_killed_store_is_removed_at_the_next_take_over(
    open_store: Opener, empty: Api
) -> None:
    store = open_store()
    left = job_status_codec.new_object(
        a_job("jleft"), namespace=NAMESPACE, now=store._clock(), finalizers=["grus.dev/job"]
    )
    empty.create(GPU_JOBS, left)
    store.take_over()
    with pytest.raises(NotFound):
        store.job(a_job("jleft").id)
    assert empty.list(GPU_JOBS)[0] == []


# ------------------------------------------------------------------------------------------- foreign writers


def test_what_one_store_writes_the_others_listeners_hear(open_store: Opener) -> None:
    here, there = open_store(), open_store()
    heard: Heard = []
    there.subscribe(heard.extend)
    [job] = stored(here, a_job())
    for version in range(1, 4):
        done(here.replace(replace(job, version=version), an_event(job, f"tick{version}")))
    until(lambda: len(there.events()) == 4, "all events are known there")
    assert there.job(job.id) == here.job(job.id)
    assert events_of(there) == ["submitted", "tick1", "tick2", "tick3"]
    assert [event for _, event in heard if event] == there.events()


def test_a_stale_writer_learns_what_is_stored(open_store: Opener) -> None:
    here, there = open_store(), open_store()
    [job] = stored(here, a_job())
    until(lambda: there.count().get(Phase.PENDING) == 1, "it is known there")
    deaf(there)
    now = done(here.replace(replace(job, reason="first"), an_event(job, "first")))
    with pytest.raises(StaleVersion):
        done(there.replace(replace(job, reason="second"), an_event(job, "second")))
    until(lambda: there.job(job.id) == now, "the refusal has brought the new state")
    assert events_of(there) == ["submitted", "first"]


@pytest.mark.parametrize("hears", [True, False], ids=["seen", "unseen"])
def test_a_persons_change_of_the_object_does_not_get_in_the_way(
    open_store: Opener, alone: Cluster, hears: bool
) -> None:
    store = open_store()
    [job] = stored(store, a_job())
    if not hears:
        deaf(store)
    name = store.home(job.id).name
    alone.kubectl("patch", "gpujob", name, "--type=merge", "-p", '{"spec": {"paused": true}}')
    alone.kubectl("annotate", "gpujob", name, "team=a")
    assert done(store.replace(replace(job, reason="waits"), None)).version == 2
    item = store.objects.objects[NAMESPACE, name]
    assert item["spec"]["paused"] is True
    assert item["metadata"]["annotations"]["team"] == "a"


def test_conditions_of_others_outlive_our_writes(open_store: Opener, empty: Api) -> None:
    store = open_store()
    [job] = stored(store, a_job())
    item = empty.get(GPU_JOBS, store.home(job.id).name, NAMESPACE)
    item["status"]["conditions"].append({"type": "SpecKept", "status": "False"})
    empty.replace(GPU_JOBS, item, part="status")
    done(store.replace(replace(job, reason="waits"), None))
    item = empty.get(GPU_JOBS, store.home(job.id).name, NAMESPACE)
    assert {"type": "SpecKept", "status": "False"} in item["status"]["conditions"]
    assert item["status"]["reason"] == "waits"


def test_a_record_that_somebody_wiped_is_put_right_by_the_next_write(open_store: Opener, empty: Api) -> None:
    store = open_store()
    [job] = stored(store, a_job())
    item = empty.get(GPU_JOBS, store.home(job.id).name, NAMESPACE)
    empty.replace(GPU_JOBS, {**item, "status": {}}, part="status")
    assert store.job(job.id) == job
    now = done(store.replace(replace(job, reason="back"), None))
    read = job_status_codec.found(empty.get(GPU_JOBS, store.home(job.id).name, NAMESPACE))
    assert read is not None
    assert read.job == now


# ------------------------------------------------------------------------------------------- deleted objects


def test_a_job_whose_object_is_deleted_is_stopped_and_stays_as_history(
    open_store: Opener, alone: Cluster
) -> None:
    store = open_store()
    heard: Heard = []
    [job, other] = stored(store, a_job(phase=Phase.RUNNING), a_job())
    store.subscribe(heard.extend)
    alone.kubectl("delete", "gpujob", store.home(job.id).name)
    until(lambda: store.job(job.id).phase is Phase.STOPPED, "it is stopped")
    until(lambda: len(heard) == 1, "the listeners have heard")
    assert heard[0][0] == store.job(job.id)
    assert "deleted" in store.job(job.id).reason
    assert store.job(other.id) == other
    with pytest.raises(NotFound):
        store.home(job.id)
    with pytest.raises(Conflict):
        done(store.replace(replace(job, reason="late"), None))


def test_a_job_whose_object_goes_while_a_write_of_it_is_answered_is_stopped(
    open_store: Opener, empty: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The news that it is gone overtakes the answer, which must not bring it back."""
    store = open_store()
    [job] = stored(store, a_job())
    home, answer = store.home(job.id), store._api.replace

    def late(kind: ResourceKind, item: Object, **more: str) -> Object:
        found = answer(kind, item, **more)
        empty.delete(GPU_JOBS, home.name, home.namespace)
        until(lambda: store._news.homeless([job.id]) == [job.id], "the store hears that it is gone")
        return found

    monkeypatch.setattr(store._api, "replace", late)
    done(store.replace(replace(job, reason="just in time"), an_event(job, "tick")))
    until(lambda: store.job(job.id).phase is Phase.STOPPED, "it is stopped")


def test_a_write_to_a_deleted_object_is_not_found(open_store: Opener, alone: Cluster) -> None:
    store = open_store()
    [job] = stored(store, a_job())
    deaf(store)
    alone.kubectl("delete", "gpujob", store.home(job.id).name)
    with pytest.raises(NotFound):
        done(store.replace(replace(job, reason="late"), None))


def test_a_queue_that_people_apply_is_a_queue_and_one_that_makes_no_sense_is_none(
    open_store: Opener, alone: Cluster
) -> None:
    store = open_store()
    manifest = """
        apiVersion: grus.dev/v1alpha1
        kind: GpuQueue
        metadata: {name: %s}
        spec: {quota: 2, limit: %d}
    """
    changes: list[int] = []
    store.watch_queues(lambda: changes.append(1))
    for name, limit in (("good", 3), ("bad", 1)):
        alone.kubectl("apply", "-f", "-", stdin=manifest % (name, limit))
    until(lambda: len(changes) == 2, "both were heard of")
    assert [queue.name for queue in store.find(QUEUES)] == ["good"]
    done(store.delete(QUEUES, QueueName("bad")))
    done(store.delete(QUEUES, QueueName("good")))
    assert store.find(QUEUES) == []


# ----------------------------------------------------------------------------------------------- coming back


def test_without_its_history_a_store_finds_jobs_last_events_and_keys_in_the_cluster(
    open_store: Opener,
) -> None:
    first = open_store()
    job = done(first.create(a_job("j1"), an_event(), key="k"))
    job = done(first.replace(replace(job, phase=Phase.STARTING), an_event(job, "starting")))
    first.close()
    second = open_store()
    assert second.jobs() == [job]
    assert events_of(second) == ["submitted", "starting"]
    assert done(second.create(a_job("j2"), an_event(), key="k")) == job
    with pytest.raises(Conflict, match="'k'"):
        done(second.create(a_job("j3", name="other"), an_event(), key="k"))


def test_with_its_history_nothing_is_told_twice_and_nothing_is_missing(
    open_store: Opener, tmp_path: Path, alone: Cluster
) -> None:
    history = tmp_path / "state" / "grus.db"
    first = open_store(history=history)
    kept, gone = stored(first, a_job("j1"), a_job("j2"))
    gone_name = first.home(gone.id).name
    first.close()
    other = open_store()
    kept = done(other.replace(replace(kept, reason="meanwhile"), an_event(kept, "meanwhile")))
    alone.kubectl("delete", "gpujob", gone_name)
    second = open_store(history=history)
    assert second.job(kept.id) == kept
    assert second.job(gone.id).phase is Phase.STOPPED
    assert events_of(second) == ["submitted", "submitted", "meanwhile", "stopped"]
    third = open_store(history=tmp_path / "new.db")
    assert [job.id for job in third.jobs()] == ["j1"]


def test_a_pruned_job_takes_its_object_with_it(open_store: Opener, empty: Api) -> None:
    store = open_store()
    old, new = (replace(a_job(phase=Phase.FAILED, submitted_at=0.0), ended_at=at) for at in (1.0, 3.0))
    stored(store, old, new)
    assert done(store.prune(PruneLimits(events_before=0.0, jobs_before=2.0))) == 1
    assert [job.id for job in store.jobs()] == [new.id]
    assert [job_status_codec.job_of(item) for item in empty.list(GPU_JOBS)[0]] == [new.id]


def test_a_pruned_job_does_not_come_back_while_its_object_lingers(open_store: Opener, empty: Api) -> None:
    """Somebody's finalizer holds it, and it changes while it waits."""
    store = open_store(finalizers=["grus.dev/job"])
    [job] = stored(store, replace(a_job(phase=Phase.FAILED, submitted_at=0.0), ended_at=1.0))
    name = store.home(job.id).name
    heard: list[str] = []
    store.watch(lambda what, item: heard.append(what))
    done(store.prune(PruneLimits(events_before=0.0, jobs_before=2.0)))
    empty.patch(GPU_JOBS, name, {"metadata": {"annotations": {"note": "late"}}}, NAMESPACE)
    empty.patch(GPU_JOBS, name, {"metadata": {"finalizers": None}}, NAMESPACE)
    until(lambda: "DELETED" in heard, "it is gone")
    stored(store, a_job())
    assert job.id not in [one.id for one in store.jobs()]
