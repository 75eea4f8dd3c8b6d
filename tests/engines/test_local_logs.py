"""Logs rotate, and offsets count from the first byte ever written."""

from pathlib import Path

import pytest

from grus.engines.local import log_rotation
from grus.engines.local.engine import LocalEngine
from grus.engines.local.log_rotation import LogWriter
from grus.model.errors import NotFound
from grus.model.identifiers import WorkerId
from tests.contracts.engine_contract import end_of
from tests.engines.test_local import a_worker


def test_rotation_drops_the_oldest_bytes_and_keeps_the_offsets(local: LocalEngine) -> None:
    """Ten bytes a line, 1,000 bytes a segment, three segments."""
    worker = WorkerId("j1")
    local.start(a_worker("j1", "i=0; while test $i -lt 550; do printf '%09d\\n' $i; i=$((i+1)); done"))
    end_of(local, worker)
    kept, end = local.log(worker, 0, 10_000)
    assert end == 5500
    assert kept.split()[0] == b"000000300"
    assert kept.split()[-1] == b"000000549"
    assert local.log(worker, 4990, 20) == (b"000000499\n000000500\n", 5010)
    assert local.log(worker, -10) == (b"000000549\n", 5500)


def test_a_follower_reads_every_byte_once(tmp_path: Path) -> None:
    writer = LogWriter(str(tmp_path / "log"), segment=7, keep=100)
    written, seen, offset = b"", b"", 0
    for number in range(200):
        piece = b"%d," % number
        writer.write(piece)
        written += piece
        data, offset = log_rotation.read(str(tmp_path / "log"), offset, 5)
        seen += data
    while data := log_rotation.read(str(tmp_path / "log"), offset, 5)[0]:
        seen += data
        offset += len(data)
    assert seen == written
    assert offset == len(written)


def test_output_of_daemons_and_of_stderr_is_in_the_log(local: LocalEngine) -> None:
    local.start(a_worker("j1", "echo out; echo err >&2; (setsid echo far); sleep 0.05"))
    end_of(local, WorkerId("j1"))
    assert sorted(local.log(WorkerId("j1"))[0].split()) == [b"err", b"far", b"out"]


@pytest.mark.parametrize("name", ["../../secrets", "../workers", "/etc", "j1/../../../secrets"])
def test_a_name_that_is_a_path_leads_to_no_file_outside_the_logs(
    local: LocalEngine, state: Path, name: str
) -> None:
    for folder in (state.parent / "secrets", state / "workers"):
        folder.mkdir(exist_ok=True)
        (folder / "0").write_text("secret")
    with pytest.raises(NotFound):
        local.log(WorkerId(name))


def test_a_worker_that_said_nothing_has_an_empty_log_also_when_it_is_forgotten(local: LocalEngine) -> None:
    local.start(a_worker("j1", "exit 7"))
    end_of(local, WorkerId("j1"))
    local.forget(WorkerId("j1"))
    assert local.log(WorkerId("j1")) == (b"", 0)
