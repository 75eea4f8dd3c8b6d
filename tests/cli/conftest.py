"""The command with a fake client behind it."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest
from typer.testing import CliRunner, Result

from grus.cli import connection
from grus.cli.main import app
from tests.cli.fake import FakeClient

Grus = Callable[..., Result]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    fake = FakeClient()
    monkeypatch.setattr(connection, "connect", lambda **_: fake)
    monkeypatch.setattr(connection, "connect_here", lambda: fake)
    return fake


@pytest.fixture
def grus(client: FakeClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Grus]:
    """Runs the command with these words; its home is an empty folder."""
    monkeypatch.setenv("GRUS_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def run(*words: str, input: str | None = None) -> Result:
        return CliRunner().invoke(app, list(words), input=input, prog_name="grus")

    with mock.patch.dict(os.environ):  # global options such as --kubernetes set variables
        yield run


@pytest.fixture
def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])
