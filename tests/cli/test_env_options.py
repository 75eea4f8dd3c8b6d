"""Variables on the command line: copied, given, from secrets; and what is dropped is named."""

import json
import os
from pathlib import Path

import pytest

from grus.cli import env_options
from tests.cli.conftest import Grus
from tests.cli.fake import FakeClient


@pytest.fixture(autouse=True)
def no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those that a test sets."""
    for name in env_options.not_passed_on(os.environ, ()):
        monkeypatch.delenv(name)


def test_a_name_alone_copies_the_variable_and_one_that_is_not_set_is_named(
    grus: Grus, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODE", "a=b")
    monkeypatch.delenv("NOT_SET", raising=False)
    told = grus("run", "-d", "-e", "MODE", "-e", "NOT_SET", "-e", "EMPTY=", "--", "true")
    env = client.submitted[-1][0].env
    assert (env["MODE"], env["EMPTY"], "NOT_SET" in env) == ("a=b", "", False)
    assert "left out, because not set here: NOT_SET" in told.stderr


def test_variables_of_the_field_that_a_job_will_not_see_are_named(
    grus: Grus, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WANDB_MODE", "NCCL_DEBUG", "HF_HOME", "EDITOR", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "x")
    told = grus("run", "-d", "-e", "NCCL_DEBUG", "--", "true")
    assert "not passed on from this shell: HF_HOME, WANDB_MODE; -e NAME copies one" in told.stderr
    assert "x" not in grus("run", "-d", "-o", "json", "--", "true").stderr


def test_a_value_that_looks_like_a_secret_is_warned_of_and_a_secret_is_named(
    grus: Grus, client: FakeClient, tmp_path: Path
) -> None:
    told = grus("run", "-d", "-e", "HF_TOKEN=q7", "--", "true")
    assert "HF_TOKEN looks like a secret" in told.stderr
    assert "grus secret set hf-token" in told.stderr
    assert "q7" not in told.stderr
    told = grus("run", "-d", "--secret", "HF_TOKEN", "--secret", "KEY=team-key", "--", "true")
    assert "warning" not in told.stderr
    assert client.submitted[-1][0].secrets == {"HF_TOKEN": "hf-token", "KEY": "team-key"}


def test_a_file_gets_variables_too(
    grus: Grus, client: FakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEED", "7")
    job = tmp_path / "job.json"
    job.write_text(json.dumps({"run": "true", "env": {"SEED": "1", "API_KEY": "q7"}}))
    told = grus("submit", str(job), "-e", "SEED", "-e", "A=b")
    env = client.submitted[-1][0].env
    assert (env["SEED"], env["A"]) == ("7", "b")
    assert "API_KEY looks like a secret" in told.stderr


def test_secrets_of_a_cluster_are_set_by_its_own_means(grus: Grus) -> None:
    told = grus("--kubernetes", "secret", "list")
    assert told.exit_code == 2
    assert "kubectl create secret generic grus-secret-NAME" in told.stderr
