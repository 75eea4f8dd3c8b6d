"""Objects of other systems and their GpuJobs, kept in step on a real API server."""

from collections.abc import Iterator
from typing import Any

import pytest

from grus.kubernetes.client.api import Api, Missing
from grus.kubernetes.client.resource_kinds import CONFIG_MAPS, DEFINITIONS, GPU_JOBS, Object, ResourceKind
from grus.kubernetes.install import foreign_crds
from grus.kubernetes.install.foreign_crds import HOROVOD_DISCOVERY
from grus.operator.foreign_jobs.gpujob import MADE_FROM
from grus.operator.foreign_jobs.sync import BRAIN_JOBS, HOROVOD_JOBS, Converters
from tests.kubernetes.clusters import until
from tests.kubernetes.store.clusters import own_cluster
from tests.operator.foreign_jobs.samples import brain_sample, horovod_sample

TEAM = "default"


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with own_cluster("converters") as cluster:
        connected = Api.connect(cluster.kubeconfig)
        for definition in foreign_crds.definitions():
            connected.create(DEFINITIONS, definition)
        until(lambda: all(map(connected.serves, (HOROVOD_JOBS, BRAIN_JOBS))), "the kinds are served")
        yield connected
        connected.close()


@pytest.fixture
def converters(api: Api) -> Iterator[Converters]:
    made = Converters(api, image="grus:1")
    made.start()
    yield made
    made.close()


def apply(api: Api, kind: ResourceKind, name: str, sample: Object) -> None:
    sample["metadata"] = {"name": name, "namespace": TEAM}
    api.create(kind, sample)


def the(api: Api, kind: ResourceKind, name: str) -> Object | None:
    try:
        return api.get(kind, name, TEAM)
    except Missing:
        return None


def made(api: Api, name: str) -> Object:
    until(lambda: the(api, GPU_JOBS, name) is not None, f"the GpuJob {name} is made")
    return api.get(GPU_JOBS, name, TEAM)


def status(api: Api, kind: ResourceKind, name: str) -> dict[str, Any]:
    return dict((the(api, kind, name) or {}).get("status") or {})


def say(api: Api, name: str, **fields: Any) -> None:
    """What the controller would write on the job."""
    api.patch(GPU_JOBS, name, {"status": fields}, TEAM, part="status")


@pytest.mark.usefixtures("converters")
def test_a_new_target_is_followed_and_what_becomes_of_the_job_is_told(api: Api) -> None:
    apply(api, HOROVOD_JOBS, "grows", horovod_sample())
    assert "replicas" not in made(api, "elastichorovodjob-grows")["spec"]
    api.patch(HOROVOD_JOBS, "grows", {"spec": {"workersSpec": {"targetReplicas": 4}}}, TEAM)
    until(
        lambda: api.get(GPU_JOBS, "elastichorovodjob-grows", TEAM)["spec"].get("replicas") == 4,
        "the size is followed",
    )
    say(api, "elastichorovodjob-grows", phase="running", replicas=4, reason="all 4 workers are up", gpus="4")
    until(lambda: status(api, HOROVOD_JOBS, "grows").get("availableReplicas") == 4, "it is told")
    assert status(api, HOROVOD_JOBS, "grows")["reason"] == "all 4 workers are up"


@pytest.mark.usefixtures("converters")
def test_a_changed_command_of_a_running_job_is_reported_as_not_applied(api: Api) -> None:
    apply(api, HOROVOD_JOBS, "edited", horovod_sample())
    command = made(api, "elastichorovodjob-edited")["spec"]["run"]
    applied = {"type": "Applied", "status": "True", "reason": "Applied", "message": "Applied"}
    job_conditions = [{**applied, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    say(api, "elastichorovodjob-edited", phase="running", conditions=job_conditions)

    def shown() -> dict[str, Any]:
        found = status(api, HOROVOD_JOBS, "edited").get("conditions") or []
        return next((one for one in found if one["type"] == "Applied"), {})

    until(lambda: shown().get("status") == "True", "the job's condition is told")
    api.patch(HOROVOD_JOBS, "edited", {"spec": {"workersSpec": {"targetReplicas": 3}}}, TEAM)
    until(lambda: made(api, "elastichorovodjob-edited")["spec"].get("replicas") == 3, "the size is followed")
    assert shown()["status"] == "True"
    before = the(api, HOROVOD_JOBS, "edited")
    assert before is not None
    api.patch(HOROVOD_JOBS, "edited", {"spec": {"launcherSpec": {"pythonCommand": ["python", "b.py"]}}}, TEAM)
    until(lambda: shown().get("status") == "False", "the change is reported as not applied")
    assert shown()["reason"] == "CannotApply"
    assert "delete the object and apply it again" in shown()["message"]
    assert made(api, "elastichorovodjob-edited")["spec"]["run"] == command
    api.patch(HOROVOD_JOBS, "edited", {"spec": before["spec"]}, TEAM)
    until(lambda: shown().get("status") == "True", "it is as it was submitted again")


@pytest.mark.usefixtures("converters")
def test_a_change_is_also_reported_for_a_job_that_an_earlier_version_made(api: Api) -> None:
    apply(api, HOROVOD_JOBS, "older", horovod_sample())
    name = "elastichorovodjob-older"
    made(api, name)
    api.patch(GPU_JOBS, name, {"metadata": {"annotations": {MADE_FROM: None}}}, TEAM)
    until(lambda: MADE_FROM in (made(api, name)["metadata"].get("annotations") or {}), "it has its digest")
    api.patch(HOROVOD_JOBS, "older", {"spec": {"launcherSpec": {"pythonCommand": ["python", "b.py"]}}}, TEAM)

    def reasons() -> set[str]:
        return {one["reason"] for one in status(api, HOROVOD_JOBS, "older").get("conditions") or ()}

    until(lambda: "CannotApply" in reasons(), "the change is reported as not applied")


@pytest.mark.usefixtures("converters")
def test_an_object_whose_job_has_ended_is_not_run_again(api: Api) -> None:
    apply(api, BRAIN_JOBS, "once", brain_sample())
    made(api, "bbjob-once")
    say(api, "bbjob-once", phase="succeeded")
    until(lambda: status(api, BRAIN_JOBS, "once").get("phase") == "succeeded", "its end is told")
    api.delete(GPU_JOBS, "bbjob-once", TEAM)
    api.patch(BRAIN_JOBS, "once", {"metadata": {"labels": {"looked": "at"}}}, TEAM)
    apply(api, BRAIN_JOBS, "after", brain_sample())  # one that is seen later, and so was this one
    made(api, "bbjob-after")
    assert the(api, GPU_JOBS, "bbjob-once") is None


@pytest.mark.usefixtures("converters")
def test_a_job_of_the_same_name_is_nobody_elses(api: Api) -> None:
    body = {"metadata": {"name": "bbjob-taken", "namespace": TEAM}, "spec": {"run": "true"}}
    api.create(GPU_JOBS, body)
    apply(api, BRAIN_JOBS, "taken", brain_sample())
    until(lambda: status(api, BRAIN_JOBS, "taken").get("phase") == "refused", "it is refused")
    assert "is there already" in status(api, BRAIN_JOBS, "taken")["reason"]
    assert api.get(GPU_JOBS, "bbjob-taken", TEAM)["spec"] == {"run": "true"}


@pytest.mark.usefixtures("converters")
def test_where_the_originals_config_map_is_its_horovodrun_is_used(api: Api) -> None:
    api.create(CONFIG_MAPS, {"metadata": {"name": HOROVOD_DISCOVERY, "namespace": TEAM}})
    try:
        apply(api, HOROVOD_JOBS, "real", horovod_sample())
        assert set(made(api, "elastichorovodjob-real")["spec"]["roles"]) == {"launcher", "worker"}
    finally:
        api.delete(CONFIG_MAPS, HOROVOD_DISCOVERY, TEAM)


def test_a_controller_that_takes_over_finds_what_was_made_and_what_was_missed(api: Api) -> None:
    first = Converters(api, image="grus:1")
    first.start()
    apply(api, BRAIN_JOBS, "early", brain_sample())
    uid = made(api, "bbjob-early")["metadata"]["uid"]
    first.close()
    apply(api, BRAIN_JOBS, "late", brain_sample())
    second = Converters(api, image="grus:1")
    second.start()
    try:
        made(api, "bbjob-late")
        assert api.get(GPU_JOBS, "bbjob-early", TEAM)["metadata"]["uid"] == uid
    finally:
        second.close()
