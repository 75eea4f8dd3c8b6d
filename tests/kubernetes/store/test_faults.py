"""The API server misbehaves or dies: nothing that was confirmed is lost, nothing is done twice."""

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grus.kubernetes.client.api import Api
from grus.kubernetes.client.resource_kinds import GPU_JOBS
from grus.model.errors import BadInput, NotFound, StaleVersion, StoreFailed
from grus.model.identifiers import JobId
from grus.model.jobs import Job
from grus.store import mirror, write_batch
from grus.store.kubernetes import job_status_codec
from grus.store.kubernetes.store import KubernetesStore
from tests.kubernetes.clusters import Cluster, tool, until
from tests.kubernetes.faults import LOST, PASS, Faults, Rule, everything
from tests.kubernetes.store.clusters import BARE, NAMESPACE
from tests.kubernetes.store.conftest import Opener
from tests.kubernetes.store.test_shared import deaf
from tests.store.builders import Heard, a_job, an_event, done, stored
from tests.store.test_against_memory import held
from tools.kubernetes.processes import end, recorded

JOBS_PATH = "/apis/grus.dev/v1alpha1"


@pytest.fixture
def faults(alone: Cluster, tmp_path: Path) -> Iterator[Faults]:
    faults = Faults(alone.kubeconfig, tmp_path)
    yield faults
    faults.close()


@pytest.fixture
def store(faults: Faults, open_store: Opener) -> Iterator[KubernetesStore]:
    """It reaches the cluster by way of `faults`."""
    api = Api.connect(faults.kubeconfig, connections=16)
    yield open_store(api, namespace=NAMESPACE)
    faults.rule = everything(PASS)
    api.close()


@pytest.fixture
def hasty(faults: Faults, open_store: Opener) -> Iterator[KubernetesStore]:
    """Like `store`, but it gives up soon."""
    api = Api.connect(faults.kubeconfig, connections=16, patience=1.0)
    yield open_store(api, namespace=NAMESPACE)
    faults.rule = everything(PASS)
    api.close()


def known(store: KubernetesStore, *jobs: Job) -> None:
    until(lambda: {job.id for job in store.jobs()} == {job.id for job in jobs}, "the jobs are known")


def writes(faults: Faults, code: int, times: int = 10**9, methods: Sequence[str] = ("PUT", "POST")) -> Rule:
    """Writes of jobs meet this fate, so many times."""
    left = [times]

    def rule(method: str, path: str) -> int:
        if method not in methods or not path.startswith(JOBS_PATH) or left[0] <= 0:
            return PASS
        left[0] -= 1
        return code

    return rule


def in_cluster(api: Api) -> dict[JobId, Job]:
    read = [job_status_codec.found(item) for item in api.list(GPU_JOBS)[0]]
    return {one.job.id: one.job for one in read if one is not None}


@pytest.mark.parametrize("fate", [LOST, 503, 500, 429], ids=["lost answers", "503", "500", "429"])
def test_a_request_of_unknown_outcome_is_settled_by_reading(
    store: KubernetesStore, faults: Faults, empty: Api, fate: int
) -> None:
    """Each write meets its fate once or more; it is done once all the same."""
    heard: Heard = []
    store.subscribe(heard.extend)
    faults.rule = writes(faults, fate, times=2)
    [job] = stored(store, a_job())
    faults.rule = writes(faults, fate, times=2)
    job = done(store.replace(replace(job, reason="first"), an_event(job, "first")))
    assert in_cluster(empty) == {job.id: job}
    assert [event.kind for event in store.events()] == ["submitted", "first"]
    assert [event for _, event in heard if event] == store.events()
    item = empty.get(GPU_JOBS, store.home(job.id).name, NAMESPACE)
    assert [one["kind"] for one in json.loads(item["status"]["recent"])] == ["submitted", "first"]


def test_a_write_to_a_deleted_object_is_not_found_also_where_the_server_answers_404(
    store: KubernetesStore, faults: Faults, alone: Cluster
) -> None:
    """As Kubernetes 1.34 and newer do."""
    [job] = stored(store, a_job())
    deaf(store)
    alone.kubectl("delete", "gpujob", store.home(job.id).name)
    faults.rule = writes(faults, 404, methods=["PUT"])
    with pytest.raises(NotFound):
        done(store.replace(replace(job, reason="late"), None))


def test_while_the_api_server_cannot_writes_fail_and_reading_goes_on(
    store: KubernetesStore, hasty: KubernetesStore, faults: Faults, empty: Api
) -> None:
    [job] = stored(store, a_job())
    known(hasty, job)
    faults.rule = everything(503)
    for write in (
        hasty.replace(replace(job, reason="lost"), an_event(job)),
        hasty.create(a_job(), an_event()),
    ):
        with pytest.raises(StoreFailed):
            done(write)
    assert hasty.jobs() == [job]
    faults.rule = everything(PASS)
    assert done(store.replace(replace(job, reason="later"), None)).version == 2
    assert set(in_cluster(empty)) == {job.id}


def test_a_write_that_failed_but_had_come_through_is_heard_of_later(
    store: KubernetesStore, hasty: KubernetesStore, faults: Faults
) -> None:
    """The answer is lost and nobody can be asked: the caller hears of a failure, later the truth comes."""
    [job] = stored(store, a_job())
    known(hasty, job)

    def rule(method: str, path: str) -> int:
        if method == "PUT":
            faults.rule = lambda method, path: PASS if "watch=" in path else 503
            return LOST
        return PASS

    faults.rule = rule
    with pytest.raises(StoreFailed):
        done(hasty.replace(replace(job, reason="through"), an_event(job, "through")))
    faults.rule = everything(PASS)
    for one in (store, hasty):
        until(lambda one=one: one.job(job.id).reason == "through", "the watch has brought it")  # type: ignore[misc]  # bound by default
        assert [event.kind for event in one.events()] == ["submitted", "through"]


def test_a_create_that_failed_leaves_no_object(faults: Faults, open_store: Opener, empty: Api) -> None:
    api = Api.connect(faults.kubeconfig)
    store = open_store(api, namespace=NAMESPACE, finalizers=["grus.dev/job"])
    faults.rule = writes(faults, 403, methods=["PUT"])
    with pytest.raises(StoreFailed, match="403"):
        done(store.create(a_job(), an_event(), key="k"))
    assert empty.list(GPU_JOBS)[0] == []
    faults.rule = everything(PASS)
    done(store.create(a_job("j2"), an_event(), key="k"))
    [item] = empty.list(GPU_JOBS)[0]
    assert item["metadata"]["finalizers"] == ["grus.dev/job"]
    empty.patch(GPU_JOBS, item["metadata"]["name"], {"metadata": {"finalizers": None}}, NAMESPACE)
    api.close()


def test_a_broken_stream_loses_no_news(store: KubernetesStore, faults: Faults, open_store: Opener) -> None:
    other = open_store()
    [job] = stored(store, a_job())
    until(lambda: other.jobs() == [job], "it is known there")
    for version in range(1, 6):
        faults.cut()
        job = done(other.replace(replace(job, reason=str(version)), an_event(job, str(version))))
    until(lambda: store.job(job.id) == job, "all is known here")
    assert [event.kind for event in store.events()] == ["submitted", *"12345"]


def test_a_job_too_large_for_the_cluster_is_bad_input(store: KubernetesStore, empty: Api) -> None:
    job = a_job()
    spec = replace(job.spec, env=tuple((f"V{n}", "x" * 1000) for n in range(1700)))
    with pytest.raises(BadInput, match="too large"):
        done(store.create(replace(job, spec=spec), an_event()))
    assert empty.list(GPU_JOBS)[0] == []


def test_a_copy_that_fails_gets_what_the_cluster_has(
    store: KubernetesStore, empty: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    [job] = stored(store, a_job())
    real = write_batch._save
    broken = threading.Event()

    def save(*args: Any) -> None:
        if not broken.is_set():
            broken.set()
            raise sqlite3.OperationalError("disk I/O error")
        real(*args)

    monkeypatch.setattr(write_batch, "_save", save)
    with held(store):
        write = store.replace(replace(job, reason="kept"), an_event(job, "kept"))
        for item in store.objects.all():  # news that waits in the same commit
            store._news.heard("MODIFIED", item)
    with pytest.raises(StoreFailed, match="disk"):
        done(write)
    until(lambda: store.job(job.id).reason == "kept", "the copy has it")
    assert in_cluster(empty)[job.id] == store.job(job.id)
    assert [event.kind for event in store.events()] == ["submitted", "kept"]


def test_news_that_the_copy_could_not_take_are_taken_again(
    open_store: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = open_store(), open_store()
    real = mirror.take
    failed = threading.Event()

    def take(connection: sqlite3.Connection, found: Sequence[mirror.MirroredJob]) -> write_batch.WriteOutcome:
        if found and not failed.is_set():
            failed.set()
            raise sqlite3.OperationalError("disk I/O error")
        return real(connection, found)

    monkeypatch.setattr(mirror, "take", take)
    [first] = stored(here, a_job("j1"))
    assert failed.wait(300)
    until(lambda: there.jobs() == here.jobs() == [first], "it is known in both")


def test_the_api_server_dies_in_the_middle_of_writes(open_store: Opener, empty: Api, alone: Cluster) -> None:
    """What was confirmed is in the cluster afterwards, and the store agrees with the cluster."""
    store = open_store()
    confirmed = {job.id: job for job in stored(store, *(a_job() for _ in range(8)))}
    over = threading.Event()

    def write(job: Job) -> None:
        while not over.is_set():
            try:
                job = done(store.replace(store.job(job.id), an_event(job, "tick")))
                confirmed[job.id] = job
            except StoreFailed:
                over.wait(0.02)  # so that eight threads do not keep the server from starting
            except StaleVersion:  # a write whose answer was lost has happened, and the watch tells only now
                continue

    threads = [threading.Thread(target=write, args=(job,)) for job in list(confirmed.values())]
    for thread in threads:
        thread.start()
    try:
        until(lambda: min(job.version for job in confirmed.values()) > 5, "writes are under way")
        before = dict(confirmed)
        mark = recorded(alone.kubeconfig.parent / "processes" / "kube-apiserver")
        assert mark is not None
        end([mark])
        assert tool("up", "--name", alone.name, *BARE).returncode == 0
        until(
            lambda: all(job.version > before[job.id].version + 1 for job in confirmed.values()), "they go on"
        )
    finally:
        over.set()
        for thread in threads:
            thread.join(timeout=300)
    there = in_cluster(empty)
    assert all(there[job.id].version >= job.version for job in confirmed.values())
    until(lambda: {job.id: job for job in store.jobs()} == there, "the copy is in step")
    for job in there.values():
        assert len(store.events(job=job.id, limit=10**6)) == job.version
