"""What people see of a job in a cluster, by pure functions."""

from dataclasses import replace

import pytest

from grus.kubernetes.api_objects.job_status import OWNED, conditions, merged, moment, people
from grus.kubernetes.client.resource_kinds import Object
from grus.kubernetes.install.custom_resources import gpu_job
from grus.model.identifiers import DeviceId, NodeId
from grus.model.jobs import Desired, Exit, ExitCause, Job, PauseCause, Phase, Seat
from grus.model.resources import GPU, Range, Replica, Request, Role
from tests.store.builders import a_full_job, a_job

SEATS = tuple(
    Seat("worker", n, NodeId(f"node{n // 2}"), (DeviceId(f"node{n // 2}/{n % 2}"),), GPU) for n in range(3)
)


def true(job: Job) -> set[str]:
    return {one["type"] for one in conditions(job, 0.0) if one["status"] == "True"}


def test_a_running_job_shows_where_it_runs_and_with_what() -> None:
    job = replace(
        a_job("j1", phase=Phase.RUNNING), seats=SEATS, progress=(("step", 3.0),), first_started_at=0.0
    )
    shown = people(job, 10.0)
    assert (shown["phase"], shown["gpus"], shown["replicas"]) == ("running", "3", 3)
    assert shown["nodes"] == ["node0", "node1"]
    assert shown["selector"] == "grus.dev/job=j1"
    assert shown["progress"] == {"step": 3.0}
    assert shown["startTime"] == "1970-01-01T00:00:00Z"
    assert "endTime" not in shown


def test_replicas_are_those_of_the_elastic_role_without_the_leaving_ones() -> None:
    roles = (Role("launcher", Range(1, 1), Replica(gpus=0)), Role("worker", Range(1, 4), Replica()))
    job = a_job(phase=Phase.RUNNING)
    launcher = Seat("launcher", 0, NodeId("node0"), (), 0)
    leaving = replace(SEATS[2], leaving=True)
    job = replace(job, spec=replace(job.spec, request=Request(roles)), seats=(launcher, *SEATS[:2], leaving))
    assert people(job, 0.0)["replicas"] == 2


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        (Phase.PENDING, {"Admitted"}),
        (Phase.STARTING, {"Admitted"}),
        (Phase.RUNNING, {"Admitted", "Running"}),
        (Phase.PAUSED, {"Admitted", "Paused"}),
        (Phase.SUCCEEDED, {"Admitted", "Complete", "Finished"}),
        (Phase.FAILED, {"Admitted", "Failed", "Finished"}),
        (Phase.STOPPED, {"Admitted", "Failed", "Finished"}),
    ],
)
def test_conditions_tell_a_waiting_script_what_it_waits_for(phase: Phase, expected: set[str]) -> None:
    assert true(a_job(phase=phase)) == expected


def test_reasons_of_conditions_are_one_word() -> None:
    job = replace(a_job(phase=Phase.FAILED), exit=Exit(ExitCause.GPU_MEMORY, 1, "It ran out."))
    [failed] = [one for one in conditions(job, 0.0) if one["type"] == "Failed"]
    assert (failed["reason"], failed["message"]) == ("CudaOutOfMemory", "It ran out.")
    preempted = replace(a_job(phase=Phase.PAUSED), paused_by=PauseCause.SCHEDULER)
    assert {one["reason"] for one in conditions(preempted, 0.0)} == {"Recorded", "Preempted"}


def test_a_job_that_is_told_to_stop_shows_so_at_once() -> None:
    assert people(replace(a_job(phase=Phase.RUNNING), desired=Desired.STOP), 0.0)["phase"] == "stopping"


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    waiting = conditions(a_job(), 10.0)
    running = merged(waiting, conditions(a_job(phase=Phase.RUNNING), 20.0))
    times = {one["type"]: one["lastTransitionTime"] for one in running}
    assert times["Running"] == moment(20.0)
    assert times["Admitted"] == times["Complete"] == moment(10.0)


def test_conditions_of_others_stay() -> None:
    other: Object = {"type": "SpecKept", "status": "False", "message": "spec does not change after submit"}
    assert other in merged([other], conditions(a_job(), 1.0))


def test_the_schema_of_the_status_has_every_field_that_is_shown() -> None:
    """What it lacks the API server would drop without a word."""
    schema = gpu_job()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    full = replace(a_full_job(), phase=Phase.SUCCEEDED, ended_at=2.0, lost=1, team=2, size=None)
    assert set(people(full, 0.0)) | OWNED | {"record", "recent", "epoch"} <= set(schema["properties"])
    assert set(people(full, 0.0)) == OWNED | {"conditions"}


def test_times_beyond_the_calendar_break_nothing() -> None:
    assert moment(1e300) == moment(0.0)
