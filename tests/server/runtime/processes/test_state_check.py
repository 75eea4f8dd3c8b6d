"""A state that was in use and has lost its record is not begun anew, nor confirmed to while it is lost."""

import json
from pathlib import Path

import httpx2
import pytest

from grus.model.errors import NotFound, StoreFailed
from grus.server.runtime.state_check import require
from grus.store.sqlite import SqliteStore
from tests.server.process import ServerProcess, eventually
from tests.store.builders import a_job, an_event


def test_a_true_first_start_is_one_also_after_one_that_was_cut_off(tmp_path: Path) -> None:
    require(tmp_path)
    (tmp_path / "grus.db").touch()
    (tmp_path / "grus.db-journal").touch()
    require(tmp_path)


@pytest.mark.parametrize("left", ["engine/epochs/3", "grus.db.new", "grus.db.before-20260101-000000"])
@pytest.mark.parametrize("empty", [True, False])
def test_whatever_tells_of_use_needs_the_record(tmp_path: Path, left: str, empty: bool) -> None:
    (tmp_path / left).mkdir(parents=True)
    if empty:
        (tmp_path / "grus.db").touch()
    with pytest.raises(NotFound, match=f"{left.partition('/')[0]}.* 0 workers live.*grus restore BACKUP"):
        require(tmp_path)
    (tmp_path / "grus.db").write_bytes(b"anything: it is looked at by whoever opens it")
    require(tmp_path)


def test_a_server_without_its_record_does_not_start_and_its_jobs_live(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "home")
    server.start()
    try:
        with server.client() as client:
            job = client.submit({"name": "long", "run": "sleep 600", "workdir": "/"})
            eventually(lambda: client.job(job.id).phase == "running", "it runs")
        server.kill()
        file = server.places.state / "grus.db"
        kept = file.rename(file.with_name("kept"))
        assert server.launch().wait(300) == 4
        assert "grus.db-wal" in server.said.read_text()
        assert "1 worker lives" in server.said.read_text()
        kept.rename(file)
        server.start()
        with server.client() as client:
            assert (client.job(job.id).phase, client.job(job.id).attempt) == ("running", 1)
    finally:
        server.end()


def test_a_server_whose_record_is_taken_away_says_so_until_it_is_back(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "home")
    server.start()
    try:
        file = server.places.state / "grus.db"
        address = json.loads(server.places.server_file.read_text())["address"]
        kept = file.rename(file.with_name("kept"))
        with server.client(patience=0.0) as client, pytest.raises(StoreFailed, match="was removed"):
            client.submit({"name": "nobody", "run": "true", "workdir": "/"})
        told = httpx2.get(f"{address}/healthz")
        assert (told.status_code, "was removed" in told.json()["wrong"]) == (503, True)
        kept.rename(file)
        with server.client() as client:
            client.submit({"name": "somebody", "run": "true", "workdir": "/"}).wait(30)
            assert [job.name for job in client.jobs()] == ["somebody"]
    finally:
        server.end()


def test_nothing_is_confirmed_that_would_go_to_a_file_that_was_replaced(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "grus.db")
    try:
        (tmp_path / "other").touch()
        (tmp_path / "other").replace(store.path)
        job = a_job()
        with pytest.raises(StoreFailed, match="replaced"):
            store.create(job, an_event(job)).result()
    finally:
        store.close()
