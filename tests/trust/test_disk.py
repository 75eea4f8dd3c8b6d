"""The model of a disk: what is synced stays, what is not may be there in any part, and nothing else."""

import random
from pathlib import Path

import pytest

from tests.trust.disk import SECTOR, Disk, Kind, Operation

TOP = "/top"


def a_disk(*operations: Operation) -> Disk:
    disk = Disk(TOP, 1)
    for operation in operations:
        disk.do(operation)
    return disk


def create(inode: int, name: str) -> Operation:
    return Operation(Kind.CREATE, inode, (f"{TOP}/{name}",))


def mkdir(inode: int, name: str) -> Operation:
    return Operation(Kind.MKDIR, inode, (f"{TOP}/{name}",))


def write(inode: int, data: bytes, offset: int = 0) -> Operation:
    return Operation(Kind.WRITE, inode, offset=offset, data=data)


def sync(inode: int) -> Operation:
    return Operation(Kind.SYNC, inode)


def rename(inode: int, old: str, new: str) -> Operation:
    return Operation(Kind.RENAME, inode, (f"{TOP}/{old}", f"{TOP}/{new}"))


def images(disk: Disk, number: int = 300) -> list[dict[str, bytes | None]]:
    return [disk.after_cut(random.Random(seed)) for seed in range(number)]


def test_what_was_synced_with_its_name_is_always_there() -> None:
    disk = a_disk(create(2, "a"), write(2, b"old"), sync(2), sync(1), write(2, b"new"))
    assert {image["a"] for image in images(disk)} == {b"old", b"new"}


def test_a_synced_file_whose_folder_was_not_synced_may_be_gone() -> None:
    disk = a_disk(create(2, "a"), write(2, b"old"), sync(2))
    assert {image.get("a") for image in images(disk)} == {None, b"old"}


def test_a_name_that_lasts_says_nothing_about_the_content() -> None:
    disk = a_disk(create(2, "a"), write(2, b"old"), sync(1))
    contents = {image["a"] for image in images(disk)}
    assert {b"", b"old"} <= contents
    assert any(
        len(content or b"") == 3 and content not in (b"old", bytes(3)) for content in contents
    )  # rubbish


def test_the_sectors_of_one_write_last_each_on_its_own() -> None:
    disk = a_disk(create(2, "a"), write(2, bytes(3 * SECTOR)), sync(2), sync(1), write(2, b"x" * 3 * SECTOR))
    seen = {
        tuple(bool(content[at]) for at in range(0, 3 * SECTOR, SECTOR))
        for image in images(disk)
        if (content := image["a"]) and len(content) == 3 * SECTOR
    }
    assert len(seen) == 8


def test_later_writes_may_last_without_earlier_ones_also_across_files() -> None:
    disk = a_disk(create(2, "a"), create(3, "b"), sync(1), write(2, b"first"), write(3, b"second"))
    assert any((image["a"], image["b"]) == (b"", b"second") for image in images(disk))


def test_a_size_that_was_cut_may_come_back_until_it_is_synced() -> None:
    cut = Operation(Kind.SIZE, 2, offset=0)
    disk = a_disk(create(2, "a"), write(2, b"old"), sync(2), sync(1), cut)
    assert {image["a"] for image in images(disk)} == {b"", b"old"}
    disk.do(sync(2))
    assert {image["a"] for image in images(disk)} == {b""}


def test_a_rename_is_one_change_also_between_folders() -> None:
    disk = a_disk(mkdir(2, "x"), mkdir(3, "y"), create(4, "x/a"), sync(1), sync(2), rename(4, "x/a", "y/a"))
    assert {("x/a" in image, "y/a" in image) for image in images(disk)} == {(True, False), (False, True)}
    disk.do(sync(3))
    assert {("x/a" in image, "y/a" in image) for image in images(disk)} == {(False, True)}


def test_a_name_in_a_folder_that_is_gone_is_gone() -> None:
    disk = a_disk(mkdir(2, "x"), create(3, "x/a"), sync(3), sync(2))
    assert {tuple(image) for image in images(disk)} == {(), ("x", "x/a")}


def test_a_file_is_never_in_two_places_after_two_renames() -> None:
    disk = a_disk(create(2, "a"), sync(1), rename(2, "a", "b"), rename(2, "b", "c"))
    assert {tuple(image) for image in images(disk)} == {("a",), ("b",), ("c",)}


def test_a_number_that_is_used_again_is_another_file() -> None:
    removed = Operation(Kind.REMOVE, paths=(f"{TOP}/a",))
    disk = a_disk(create(2, "a"), write(2, b"old"), sync(2), removed, create(2, "b"))
    assert disk.now() == {"b": b""}


@pytest.mark.parametrize("name", ["grus.db-shm"])
def test_what_means_nothing_without_power_is_left_out(name: str) -> None:
    assert a_disk(create(2, name), sync(1)).now() == {}


def test_what_was_there_in_the_beginning_is_certain(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "a").write_bytes(b"old")
    disk = Disk.of(tmp_path)
    assert images(disk, 20) == [{"x": None, "x/a": b"old"}] * 20
