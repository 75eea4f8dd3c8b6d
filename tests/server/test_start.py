"""The first start's token, the lock on the state folder, the log, and the choice of a pool."""

import hashlib
import logging
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import uvicorn

from grus.model.errors import BadInput, Conflict, DoesNotFit
from grus.model.interfaces import TOKENS, USERS, AccessRole
from grus.server.http.listener import Brake, bind
from grus.server.runtime import device_inventory
from grus.server.runtime.device_inventory import PoolChoice, before, choose, remember, remembered
from grus.server.runtime.first_start import ensure_admin
from grus.server.runtime.lock import StateLock
from grus.server.runtime.log_files import log_to
from grus.store.memory import MemoryStore
from grus.telemetry.virtual_gpus import VirtualSource


def test_the_first_start_makes_an_administrator_and_stores_only_the_digest(tmp_path: Path) -> None:
    store, path = MemoryStore(), tmp_path / "config" / "token"
    secret = ensure_admin(store, path, now=1.0)
    assert secret is not None
    assert len(secret) >= 43
    assert path.read_text().strip() == secret
    assert path.stat().st_mode & 0o777 == 0o600
    assert [token.digest for token in store.find(TOKENS)] == [hashlib.sha256(secret.encode()).hexdigest()]
    assert [user.role for user in store.find(USERS)] == [AccessRole.ADMIN]


def test_the_second_start_makes_nothing(tmp_path: Path) -> None:
    store = MemoryStore()
    ensure_admin(store, tmp_path / "token", now=1.0)
    assert ensure_admin(store, tmp_path / "token", now=2.0) is None
    assert len(store.find(TOKENS)) == 1


def test_a_token_that_outlived_the_state_goes_on_to_be_valid(tmp_path: Path) -> None:
    first = ensure_admin(MemoryStore(), tmp_path / "token", now=1.0)
    assert ensure_admin(MemoryStore(), tmp_path / "token", now=2.0) == first


def test_a_file_that_holds_something_else_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of another server")
    with pytest.raises(BadInput, match="move the file away"):
        ensure_admin(MemoryStore(), tmp_path / "token", now=1.0)
    assert (tmp_path / "token").read_text() == "of another server"


def test_a_second_server_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    first = StateLock(tmp_path / "lock")
    first.take()
    with pytest.raises(Conflict, match=f"pid {os.getpid()}"):
        StateLock(tmp_path / "lock").take()
    first.release()
    StateLock(tmp_path / "lock").take()


def test_a_taken_port_is_told_with_what_to_do() -> None:
    with bind("127.0.0.1", 0) as first:
        first.listen()
        with pytest.raises(Conflict, match="--port"):
            bind("127.0.0.1", first.getsockname()[1])


def test_a_pulled_brake_stops_the_server_whether_it_runs_already_or_not() -> None:
    for early in (True, False):
        server, brake = uvicorn.Server(uvicorn.Config(print)), Brake()
        if early:
            brake.pull("a newer server has taken over")
        brake.hold(server)
        if not early:
            assert not server.should_exit
            brake.pull("a newer server has taken over")
        assert server.should_exit


def test_a_log_line_cannot_be_forged(tmp_path: Path) -> None:
    handler = log_to(tmp_path / "log")
    try:
        logging.getLogger("grus.test").info("from %s", "a\n2026-01-01T00:00:00.000Z INFO grus all is well")
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()
    (line,) = (tmp_path / "log").read_text().splitlines()
    assert "INFO grus.test from a\\n2026" in line


def test_requests_that_are_handed_on_are_not_logged(tmp_path: Path) -> None:
    handler = log_to(tmp_path / "log")
    try:
        logging.getLogger("httpx2").info("HTTP Request: GET http://127.0.0.1:1/dev/j/lab/tree/private.ipynb")
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()
    assert (tmp_path / "log").read_text() == ""


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_inventory, "_nvml", lambda: None)


class RealSource(VirtualSource):
    """Real GPUs, as far as the choice of a pool can tell."""

    virtual = False


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_inventory, "_nvml", lambda: RealSource("1x4x80GB"))


def gpus(pool: PoolChoice) -> list[int]:
    return [len(node.devices) for node in pool.source.nodes(())]


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize("text", ["auto", "nvml"])
def test_a_machine_without_gpus_names_the_driver_and_virtual_gpus(text: str, tmp_path: Path) -> None:
    with pytest.raises(DoesNotFit, match=r"NVIDIA's driver.*grus up --virtual 2x4x16GB"):
        choose(text, before(tmp_path))


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize(("kept", "found"), [("2x4x16GB", [4, 4]), ("2x4", [2]), ("", [2])])
def test_the_virtual_pool_of_last_time_comes_again_where_nothing_else_is_said(
    tmp_path: Path, kept: str, found: list[int]
) -> None:
    (tmp_path / "grus.db").touch()
    remember(choose("virtual 2x4x16GB", before(tmp_path)), tmp_path)
    assert remembered(tmp_path) == "2x4x16GB"
    (tmp_path / "pool").write_text(kept)
    pool = choose("auto", before(tmp_path))
    assert gpus(pool) == found
    assert "as before" in pool.notice


@pytest.mark.usefixtures("no_driver")
def test_a_state_whose_pool_was_chosen_automatically_by_an_earlier_version_still_starts(
    tmp_path: Path,
) -> None:
    (tmp_path / "grus.db").touch()
    telemetry_of(tmp_path, "", "node-0/gpu-1")
    assert gpus(choose("auto", before(tmp_path))) == [2]


def telemetry_of(state: Path, *devices: str) -> None:
    with closing(sqlite3.connect(state / "telemetry.db")) as file:
        file.execute("CREATE TABLE subjects (device TEXT NOT NULL)")
        file.executemany("INSERT INTO subjects VALUES (?)", [(one,) for one in devices])
        file.commit()


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize("text", ["auto", "nvml", "virtual 2x4x16GB"])
@pytest.mark.parametrize("version", ["this", "earlier"])
def test_real_gpus_are_never_replaced_by_virtual_ones(tmp_path: Path, text: str, version: str) -> None:
    (tmp_path / "grus.db").touch()
    if version == "this":
        remember(PoolChoice(RealSource("1x4x80GB")), tmp_path)
    else:
        telemetry_of(tmp_path, "", "GPU-5f0c9b6e-0000-1111-2222-333344445555")
    assert before(tmp_path).real
    with pytest.raises((DoesNotFit, Conflict), match="of this state use"):
        choose(text, before(tmp_path))


@pytest.mark.usefixtures("driver")
def test_real_gpus_are_taken_where_nothing_is_said_and_remembered(tmp_path: Path) -> None:
    pool = choose("auto", before(tmp_path))
    assert (gpus(pool), pool.notice) == ([4], "")
    remember(pool, tmp_path)
    assert remembered(tmp_path) == "nvml"
    assert before(tmp_path).real


def test_a_damaged_telemetry_file_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / "grus.db").touch()
    (tmp_path / "telemetry.db").write_text("no database")
    assert not before(tmp_path).real


def test_a_pool_that_was_asked_for_needs_no_notice(tmp_path: Path) -> None:
    pool = choose("virtual 2x4x16GB", before(tmp_path))
    assert gpus(pool) == [4, 4]
    assert pool.notice == ""


@pytest.mark.parametrize("text", ["", "virtual", "nvml 4", "real", "virtual 2y4"])
def test_a_pool_that_cannot_be_understood_is_bad_input(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        choose(text, before(tmp_path))
