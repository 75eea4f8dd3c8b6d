"""The init container makes the worker's files, unpacks its code and waits for the agent, within reason."""

import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from grus.kubernetes import prepare
from grus.kubernetes.bundle.code_bundles import Bundle, pack
from grus.kubernetes.bundle.unpacking import piece
from grus.kubernetes.names import ATTACHED_FILE, BELL_FILE, BUNDLE_VARIABLE, REPORT_FILE


def pieces_of(bundle: Bundle, folder: Path) -> Path:
    folder.mkdir()
    for number, content in enumerate(bundle.pieces):
        (folder / piece(number)).write_bytes(content)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "run"
    made.mkdir()
    (made / ATTACHED_FILE).touch()
    return made


def test_it_loads_next_to_nothing() -> None:
    """Every worker waits for it."""
    names = (
        "import sys, grus.kubernetes.prepare; print(*sorted(m for m in sys.modules if m.startswith('grus')))"
    )
    loaded = subprocess.run([sys.executable, "-c", names], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == ["grus", "grus.kubernetes", "grus.kubernetes.names", "grus.kubernetes.prepare"]


def test_the_files_are_for_every_user_and_making_them_twice_changes_nothing(folder: Path) -> None:
    prepare.make_files(folder)
    (folder / REPORT_FILE).write_text("said\n")
    prepare.make_files(folder)
    assert (folder / REPORT_FILE).read_text() == "said\n"
    modes = [(folder / name).stat().st_mode for name in (REPORT_FILE, BELL_FILE)]
    assert [stat.S_IMODE(mode) for mode in modes] == [0o666, 0o666]
    assert stat.S_ISFIFO(modes[1])


def test_code_is_in_place_before_the_worker_starts(folder: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "train.py").write_text("print(1)\n")
    bundle = pack(source)
    target.mkdir()
    pieces = pieces_of(bundle, tmp_path / "pieces")
    assert prepare.main({BUNDLE_VARIABLE: bundle.name}, folder=folder, code=target, pieces=pieces) == 0
    assert (target / "train.py").read_text() == "print(1)\n"


def test_code_that_is_not_what_it_should_be_stops_the_worker_and_says_why(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "0" * 32 + "-1"
    assert prepare.main({BUNDLE_VARIABLE: name}, folder=folder, code=tmp_path, pieces=tmp_path) == 1
    assert "a piece is missing" in capsys.readouterr().err


def test_without_an_agent_the_worker_starts_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare.main({}, folder=tmp_path, patience=0.0) == 0
    assert "no node agent" in capsys.readouterr().err


def test_it_ends_as_soon_as_the_agent_is_there(tmp_path: Path) -> None:
    done: list[int] = []
    waiting = threading.Thread(target=lambda: done.append(prepare.main({}, folder=tmp_path, patience=60)))
    waiting.start()
    (tmp_path / ATTACHED_FILE).touch()
    waiting.join(300)
    assert done == [0]
