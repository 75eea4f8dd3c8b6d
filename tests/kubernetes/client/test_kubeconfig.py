"""Kubeconfig files: which are read, and how several are one."""

import json
from pathlib import Path

import pytest

from grus.kubernetes.client import kubeconfig
from grus.kubernetes.client.errors import Unreachable
from grus.kubernetes.client.kubeconfig import access
from tests.kubernetes.faults import configuration


def write(file: Path, content: object) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))
    return file


def test_several_files_are_one_and_the_first_to_say_something_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write(tmp_path / "one" / "config", {**configuration("http://first"), "users": None})
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "token").write_text("of two")
    second = write(tmp_path / "two" / "config", configuration("http://second", {"tokenFile": "token"}))
    monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path}/nothing:{second}")
    found = access()
    assert (found.server, found.namespace, found.credential.header()) == (
        "http://first",
        "mine",
        "Bearer of two",
    )


def test_a_named_file_goes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(write(tmp_path / "one", configuration("http://environment"))))
    assert (
        access(write(tmp_path / "two", configuration("http://named/prefix/"))).server == "http://named/prefix"
    )
    assert access().server == "http://environment"


def test_the_home_folders_file_goes_before_the_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", tmp_path / "account")
    with pytest.raises(Unreachable, match="neither KUBECONFIG nor"):
        access()
    write(tmp_path / ".kube" / "config", configuration("http://home"))
    assert access().server == "http://home"


def test_a_name_and_a_password_are_sent_as_such(tmp_path: Path) -> None:
    user = {"username": "crane", "password": "grey"}
    found = access(write(tmp_path / "config", configuration("http://it", user)))
    assert found.credential.header() == "Basic Y3JhbmU6Z3JleQ=="


@pytest.mark.parametrize(
    "content",
    [
        [],
        {},
        {**configuration("http://it"), "current-context": "another"},
        configuration("http://it", {"tokenFile": "not there"}),
        configuration("https://it", {"client-certificate-data": "bm8=", "client-key-data": "bm8="}),
    ],
)
def test_a_file_that_makes_no_sense_is_told_in_a_sentence(tmp_path: Path, content: object) -> None:
    with pytest.raises(Unreachable, match="no cluster can be reached with what is configured"):
        access(write(tmp_path / "config", content))
