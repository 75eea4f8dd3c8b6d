"""Whatever a worker makes of its folder: the agent follows no link, never waits, reads a bounded end."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from grus.kubernetes.agent.volume import REACH, Volume
from grus.kubernetes.names import ATTACHED_FILE, BELL_FILE, CONTROL_FILE, REPORT_FILE
from grus.kubernetes.prepare import make_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "volume"
    made.mkdir()
    make_files(made)
    return made


@pytest.fixture
def volume(folder: Path) -> Iterator[Volume]:
    found = Volume.find(folder)
    assert found is not None
    yield found
    found.close()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of the node that no worker may see."""
    made = tmp_path / "secret"
    made.write_text("secret\n")
    return made


def ring(folder: Path) -> None:
    handle = os.open(folder / BELL_FILE, os.O_WRONLY | os.O_NONBLOCK)
    os.write(handle, b"!")
    os.close(handle)


def test_a_ring_is_heard_once(folder: Path, volume: Volume) -> None:
    assert not volume.hear()
    ring(folder)
    ring(folder)
    assert volume.hear()
    assert not volume.hear()


def test_the_last_whole_line_counts(folder: Path, volume: Volume) -> None:
    assert volume.last_line() == ""
    (folder / REPORT_FILE).write_text("one\ntwo\nhalf")
    assert volume.last_line() == "two"


def test_of_a_huge_report_only_the_end_is_read(folder: Path, volume: Volume) -> None:
    with open(folder / REPORT_FILE, "wb") as file:
        file.truncate(1 << 40)  # no disk has that: it is all holes
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast\n")
    assert volume.last_line() == "last"


def test_a_line_longer_than_is_read_is_none(folder: Path, volume: Volume) -> None:
    (folder / REPORT_FILE).write_bytes(b"first\n" + b"x" * REACH + b"\n")
    assert volume.last_line() == ""


def test_bytes_that_are_no_text_are_told_as_such(folder: Path, volume: Volume) -> None:
    (folder / REPORT_FILE).write_bytes(b"\xff\xfe\n")
    assert volume.last_line() == "\ufffd\ufffd"


def test_the_last_line_is_read_after_the_folder_is_gone(folder: Path, volume: Volume) -> None:
    (folder / REPORT_FILE).write_text("last words\n")
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    assert volume.last_line() == "last words"
    with pytest.raises(FileNotFoundError):
        volume.write_control("{}")


def test_another_report_and_another_bell_are_taken_up(folder: Path, volume: Volume) -> None:
    for name in (REPORT_FILE, BELL_FILE):
        (folder / name).unlink()
    make_files(folder)
    (folder / REPORT_FILE).write_text("anew\n")
    assert volume.last_line() == "anew"
    assert volume.renew_bell()
    assert not volume.renew_bell()
    ring(folder)
    assert volume.hear()


@pytest.mark.parametrize("name", [REPORT_FILE, BELL_FILE])
def test_a_link_is_not_followed_at_first(folder: Path, secret: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).symlink_to(secret)
    assert Volume.find(folder) is None


def test_a_link_is_not_followed_later(folder: Path, volume: Volume, secret: Path) -> None:
    (folder / REPORT_FILE).write_text("mine\n")
    for name in (REPORT_FILE, BELL_FILE):
        (folder / name).rename(folder / f"{name}.old")
        (folder / name).symlink_to(secret)
    assert volume.last_line() == "mine"
    assert not volume.renew_bell()


def test_a_folder_that_is_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert Volume.find(link) is None


def test_a_pipe_in_place_of_the_report_does_not_block(folder: Path, volume: Volume) -> None:
    (folder / REPORT_FILE).write_text("mine\n")
    (folder / REPORT_FILE).rename(folder / "old")
    os.mkfifo(folder / REPORT_FILE)
    assert volume.last_line() == "mine"
    found: list[Volume | None] = []
    look = threading.Thread(target=lambda: found.append(Volume.find(folder)), daemon=True)
    look.start()
    look.join(300)
    assert found == [None]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
def test_a_device_in_place_of_the_report_is_not_opened(folder: Path) -> None:
    (folder / REPORT_FILE).unlink()
    os.mknod(folder / REPORT_FILE, 0o666 | 0o020000, os.makedev(1, 5))  # /dev/zero
    assert Volume.find(folder) is None


def test_control_replaces_a_link_and_not_what_it_leads_to(folder: Path, volume: Volume, secret: Path) -> None:
    (folder / CONTROL_FILE).symlink_to(secret)
    volume.write_control("orders")
    assert not (folder / CONTROL_FILE).is_symlink()
    assert (folder / CONTROL_FILE).read_text() == "orders"
    assert secret.read_text() == "secret\n"


def test_control_is_replaced_whole_and_readable_for_every_user(folder: Path, volume: Volume) -> None:
    volume.write_control("long" * 1000)
    first = (folder / CONTROL_FILE).stat()
    volume.write_control("short")
    second = (folder / CONTROL_FILE).stat()
    assert first.st_ino != second.st_ino
    assert second.st_mode & 0o777 == 0o644
    assert (folder / CONTROL_FILE).read_text() == "short"


def test_a_folder_in_place_of_control_is_an_error_that_leaves_nothing(folder: Path, volume: Volume) -> None:
    (folder / CONTROL_FILE).mkdir()
    before = sorted(os.listdir(folder))
    with pytest.raises(OSError, match="directory"):
        volume.write_control("orders")
    assert sorted(os.listdir(folder)) == before


def test_attaching_touches_nothing_that_a_link_leads_to(folder: Path, volume: Volume, tmp_path: Path) -> None:
    (folder / ATTACHED_FILE).symlink_to(tmp_path / "made")
    volume.attach()
    assert not (tmp_path / "made").exists()


def test_there_is_no_volume_before_the_init_container_was_there(tmp_path: Path) -> None:
    assert Volume.find(tmp_path / "nothing") is None
    (tmp_path / REPORT_FILE).touch()
    assert Volume.find(tmp_path) is None
