"""Jobs as objects and back, by pure functions."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from grus.kubernetes.client.resource_kinds import Object
from grus.model.jobs import Job, Phase
from grus.store import codec
from grus.store.kubernetes import job_status_codec
from grus.store.kubernetes.job_status_codec import (
    CREATING,
    RECENT,
    being_made,
    found,
    new_object,
    object_name,
)
from tests.store.builders import a_full_job, a_job, an_event


def answered(body: Object, before: Object | None = None) -> Object:
    """As the API server would answer: through JSON, with what it adds."""
    sent = json.loads(msgspec.json.encode({**(before or {}), **body}))
    sent["metadata"] = {
        "uid": "u1",
        "resourceVersion": "1",
        "creationTimestamp": "1970-01-01T00:16:40Z",
        **((before or {}).get("metadata") or {}),
        **sent["metadata"],
    }
    result: dict[str, Any] = sent
    return result


def an_object(job: Job, key: str | None = None) -> Object:
    return answered(new_object(job, namespace="team-a", now=1000.0, key=key))


def recorded(item: Object, job: Job, *kinds: str, epoch: int = 0, now: float = 0.0) -> Object:
    events = [(job.version, an_event(job, kind)) for kind in kinds]
    body = job_status_codec.recorded(item, job, codec.JOB.encode(job), events, epoch_now=epoch, now=now)
    return answered(body, item)


def test_a_job_reads_back_from_its_object_as_it_was() -> None:
    job = replace(a_full_job(), version=7)
    read = found(recorded(an_object(job, key="k"), job, "submitted", "starting"))
    assert read is not None
    assert read.job == job
    assert read.key == "k"
    assert [(version, event.kind) for version, event in read.events] == [(7, "submitted"), (7, "starting")]


def test_an_object_without_a_record_is_no_job() -> None:
    assert found(an_object(a_job())) is None


def test_a_record_that_cannot_be_read_is_told_and_is_no_job(caplog: pytest.LogCaptureFixture) -> None:
    item = recorded(an_object(a_job("j1")), a_job("j1"))
    item["status"]["record"] = item["status"]["record"].replace("pending", "flying")
    assert found(item) is None
    assert "team-a/resnet-j1" in caplog.text


def test_only_the_last_events_are_kept_in_the_object() -> None:
    job = a_job()
    item = an_object(job)
    for version in range(1, RECENT + 6):
        item = recorded(item, replace(job, version=version), "tick")
    versions = [one["version"] for one in json.loads(item["status"]["recent"])]
    assert versions == list(range(6, RECENT + 6))


def test_what_others_wrote_in_the_status_stays_and_what_is_over_goes() -> None:
    job = replace(a_job(phase=Phase.RUNNING), lost=1)
    item = recorded(an_object(job), job)
    item["status"]["observedGeneration"] = 3
    after = recorded(item, replace(job, lost=0))
    assert after["status"]["observedGeneration"] == 3
    assert "lost" in item["status"]
    assert "lost" not in after["status"]


def test_the_epoch_never_falls() -> None:
    item = recorded(an_object(a_job()), a_job(), epoch=5)
    assert job_status_codec.epoch(recorded(item, a_job(), epoch=3)) == 5


def test_names_are_those_of_people_made_fit_for_a_cluster() -> None:
    assert object_name(a_job("j1", name="Größe x/7")) == "gr-e-x-7-j1"
    assert object_name(a_job("j1", name="…")) == "j1"
    longest = object_name(a_job("j0123456789", name="n" * 200))
    assert len(longest) == 63
    assert longest.endswith("n-j0123456789")


def test_an_object_half_made_is_known_from_a_persons_copy_of_it() -> None:
    """`kubectl get -o yaml`, then `apply` under another name: annotations come along, the moment does not."""
    item = an_object(a_job())
    assert being_made(item)
    copy = {**item, "metadata": {**item["metadata"], "creationTimestamp": "2025-01-01T00:00:00Z"}}
    assert not being_made(copy)
    assert not being_made(recorded(item, replace(a_job(), version=1)))
    del item["metadata"]["annotations"][CREATING]
    assert not being_made(item)


def test_a_key_belongs_to_the_object_that_was_made_for_it() -> None:
    """A copy that became a job of its own does not answer to the first one's key."""
    first, second = replace(a_job("j1"), version=1), replace(a_job("j2"), version=1)
    copy = recorded(an_object(first, key="k"), second)
    read = found(copy)
    assert read is not None
    assert read.key is None
    assert job_status_codec.key_hash("ada", "k") != job_status_codec.key_hash("bob", "k")
