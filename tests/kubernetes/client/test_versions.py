"""Releases of Kubernetes differ; Grus treats them alike. Answers are those of servers of 1.20 and 1.34."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from grus.kubernetes.client.api import Api, Conflicts, Missing, Object
from grus.kubernetes.client.errors import refusal
from grus.kubernetes.client.resource_kinds import DISRUPTION_BUDGETS, DISRUPTION_BUDGETS_BETA, GPU_JOBS
from grus.kubernetes.client.versions import Release, budgets_of, release_of, update_refused
from tests.kubernetes.faults import configuration
from tests.kubernetes.servers import Pretend
from tools.kubernetes import versions as programs

GONE = {
    (1, 20): (
        409,
        "Conflict",
        'Operation cannot be fulfilled on gpujobs.grus.dev "resnet": StorageError: invalid object, Code: 4,'
        " Key: /registry/grus.dev/gpujobs/team/resnet, ResourceVersion: 0, AdditionalErrorMsg: Precondition"
        " failed: UID in precondition: 5e51, UID in object meta: ",
    ),
    (1, 34): (404, "NotFound", 'gpujobs.grus.dev "resnet" not found'),
}
"""Answers to an update, with a uid, of an object that was deleted."""
SEEN: Object = {"metadata": {"name": "resnet", "namespace": "team", "uid": "5e51", "resourceVersion": "7"}}


def gone(release: Release) -> tuple[int, bytes]:
    number, reason, message = GONE[release]
    status = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": number}
    return number, json.dumps(status).encode()


@pytest.fixture(params=[Release(1, 20), Release(1, 34)], ids=str)
def release(request: pytest.FixtureRequest) -> Release:
    found: Release = request.param
    return found


@pytest.fixture
def server() -> Iterator[Pretend]:
    started = Pretend()
    yield started
    started.close()


@pytest.fixture
def api(server: Pretend, tmp_path: Path) -> Iterator[Api]:
    (tmp_path / "kubeconfig").write_text(json.dumps(configuration(server.address)))
    connected = Api.connect(tmp_path / "kubeconfig")
    yield connected
    connected.close()


def test_an_update_of_a_deleted_object_conflicts_on_every_release(
    server: Pretend, api: Api, release: Release
) -> None:
    number, body = gone(release)
    server.bodies = {number: body}
    for part in ("", "status"):
        server.codes = [number]
        with pytest.raises(Conflicts, match="resnet"):
            api.replace(GPU_JOBS, SEEN, part=part)
    server.codes = [404]
    with pytest.raises(Missing):
        api.get(GPU_JOBS, "resnet", "team")


def test_an_update_that_names_no_state_is_missing_where_nothing_is_there() -> None:
    answer = refusal(*gone(Release(1, 34)))
    assert isinstance(answer, Missing)
    assert update_refused(answer, {"metadata": {"name": "resnet"}}) is answer
    for name in ("uid", "resourceVersion"):
        assert isinstance(update_refused(answer, {"metadata": {name: "7"}}), Conflicts)


@pytest.mark.parametrize("version", [("1", "20", "v1.20.2"), ("1", "34+", "v1.34.1-eks-7f9249a")])
def test_the_release_of_a_server_is_read_from_its_version(
    server: Pretend, api: Api, version: tuple[str, str, str]
) -> None:
    names = ("major", "minor", "gitVersion")
    server.bodies = {200: json.dumps(dict(zip(names, version, strict=True))).encode()}
    assert api.release() == (1, int(version[1].rstrip("+")))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("v1.20.2", (1, 20)),
        ("v1.36.4", (1, 36)),
        ("1.36+", (1, 36)),
        ("v1.31.2-eks-7f9249a", (1, 31)),
        ("v1.30.4+k3s1", (1, 30)),
        ("Kubernetes v1.36.4\n", (1, 36)),
    ],
)
def test_every_form_of_a_version_is_read(text: str, found: tuple[int, int]) -> None:
    assert release_of(text) == found
    assert programs.parsed(text) == found


def test_a_text_without_a_version_is_refused() -> None:
    for read in (release_of, programs.parsed):
        with pytest.raises(ValueError, match="latest"):
            read("latest")


def test_budgets_are_of_the_version_that_the_release_serves() -> None:
    assert budgets_of(Release(1, 20)) == DISRUPTION_BUDGETS_BETA
    assert budgets_of(Release(1, 21)) == budgets_of(Release(1, 36)) == DISRUPTION_BUDGETS


def test_programs_of_1_20_get_the_flags_that_they_need() -> None:
    assert programs.without_ports((1, 20)) == ["--secure-port=0", "--port=0"]
    assert programs.runtime((1, 20), "/s") == [
        "--container-runtime=remote",
        "--container-runtime-endpoint=unix:///s",
    ]
    assert programs.cgroup_version((1, 20)) == []
    assert programs.pod_security((1, 20)) == ["--enable-admission-plugins=PodSecurityPolicy"]


def test_programs_of_1_36_get_no_flag_that_is_gone() -> None:
    assert programs.without_ports((1, 36)) == ["--secure-port=0"]
    assert programs.runtime((1, 36), "/s") == ["--container-runtime-endpoint=unix:///s"]
    assert programs.cgroup_version((1, 36)) == ["--fail-cgroupv1=false"]
    assert programs.pod_security((1, 36)) == []


def test_flags_follow_the_programs_in_the_folder(tmp_path: Path) -> None:
    """A program that reports its release is all that is asked of it."""
    newer = tmp_path / "kubelet"
    newer.write_text("#!/bin/sh\necho Kubernetes v1.36.4\n")
    newer.chmod(0o755)
    assert programs.release_of(newer) == (1, 36)
