"""What is to be done about a GpuJob, by what it says and what is on record."""

import copy
from dataclasses import replace
from typing import Any

from grus.kubernetes.client.resource_kinds import Object
from grus.model.jobs import Desired, Phase
from grus.model.resources import Range
from grus.operator.reconcile_next_step import (
    FINALIZER,
    AdmitObject,
    Follow,
    KeepObject,
    ReleaseObject,
    Stop,
    asked,
    document,
    id_of,
    next_step,
)
from tests.operator.objects import a_gpu_job
from tests.scheduler.builders import a_job

JOB = a_job("j")


def held(found: Object, **metadata: Any) -> Object:
    return {**found, "metadata": {**found["metadata"], "finalizers": ["other", FINALIZER], **metadata}}


def admitted(**spec: Any) -> Object:
    found = held(a_gpu_job(**spec))
    want = asked(found)
    return {**found, "status": {"asked": want.status(want.digest)}}


def edited(found: Object, **spec: Any) -> Object:
    made = copy.deepcopy(found)
    made["spec"].update(spec)
    made["metadata"]["generation"] += 1
    return made


def test_an_object_is_held_before_it_becomes_a_job() -> None:
    assert next_step(a_gpu_job(), None, at_work=False) == KeepObject()
    assert next_step(held(a_gpu_job()), None, at_work=False) == AdmitObject()
    assert next_step(a_gpu_job(), JOB, at_work=False) == KeepObject()


def test_nothing_is_done_about_an_object_whose_record_is_not_read_yet() -> None:
    found = {**held(a_gpu_job()), "status": {"record": '{"id": "j0123456789"}'}}
    assert next_step(found, None, at_work=False) is None
    assert id_of(found) == "j0123456789"


def test_nothing_is_done_while_the_spec_stays() -> None:
    assert next_step(admitted(paused=True, replicas=3), JOB, at_work=True) is None


def test_pause_and_size_are_followed_when_they_change_and_only_then() -> None:
    found = admitted(paused=False, replicas=2)
    step = next_step(edited(found, paused=True), JOB, at_work=True)
    assert isinstance(step, Follow)
    assert (step.paused, step.scaled, step.altered) == (True, False, False)
    step = next_step(edited(found, replicas=4), JOB, at_work=True)
    assert isinstance(step, Follow)
    assert (step.paused, step.scaled, step.size) == (None, True, Range(4, 4))
    step = next_step(edited(found, replicas=None), JOB, at_work=True)
    assert isinstance(step, Follow)
    assert (step.scaled, step.size) == (True, None)


def test_any_other_change_is_told_and_stays_told_until_it_is_taken_back() -> None:
    found = admitted()
    step = next_step(edited(found, run="rm -rf /"), JOB, at_work=True)
    assert isinstance(step, Follow)
    assert step.altered
    noted = {**edited(found, run="rm -rf /"), "status": {"asked": step.asked.status(step.digest)}}
    assert next_step(noted, JOB, at_work=True) is None
    back = next_step(edited(noted, run="python train.py"), JOB, at_work=True)
    assert isinstance(back, Follow)
    assert not back.altered


def test_a_deleted_object_waits_until_nothing_of_its_job_is_left() -> None:
    going = held(a_gpu_job(), deletionTimestamp="2026-01-01T00:01:00Z")
    running = replace(JOB, phase=Phase.RUNNING)
    assert next_step(going, running, at_work=True) == Stop()
    assert next_step(going, replace(running, desired=Desired.STOP), at_work=True) is None
    over = replace(JOB, phase=Phase.STOPPED)
    assert next_step(going, over, at_work=True) is None
    assert next_step(going, over, at_work=False) == ReleaseObject()
    assert next_step(going, None, at_work=False) == ReleaseObject()
    free = a_gpu_job()
    free["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    assert next_step(free, over, at_work=False) is None


def test_ids_come_from_uids_and_differ() -> None:
    one, other = a_gpu_job(), a_gpu_job()
    other["metadata"]["uid"] = "6f1c2b1e-0d5a-4c39-9f1e-2a7d4b8c9e11"
    assert id_of(one) != id_of(other)
    assert id_of(one) == id_of(a_gpu_job())


def test_an_object_reads_like_a_job_file() -> None:
    found = document(a_gpu_job("my.job", paused=True, replicas=2, idle=None, resources={"gpu": 2}))
    assert found == {"run": "python train.py", "resources": {"gpu": 2}, "name": "my-job"}
