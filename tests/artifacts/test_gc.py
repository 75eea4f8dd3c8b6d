"""What nobody needs goes, what somebody needs stays, whoever brings in or dies meanwhile."""

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from grus.artifacts.artifact_store import ArtifactStore
from grus.artifacts.artifact_upload import keep
from grus.artifacts.cache import fetch
from grus.artifacts.gc import Order, Swept, goes, read_order, sweep
from grus.artifacts.manifest import CHUNK
from grus.model.errors import Conflict, NotFound
from tests.artifacts.builders import NODE, PLENTY, a_folder, contents

KEEP, GRACE, NOW = 1000.0, 10.0, 1e6


def an_order(**changes: object) -> Order:
    return Order(**({"keep": KEEP, "grace": GRACE, "budget": PLENTY} | changes))  # type: ignore[arg-type]  # keywords of many types


def an_artefact(vault: ArtifactStore, folder: Path, name: str, age: float, content: bytes = b"x") -> str:
    """Kept, and last used `age` seconds before NOW; its chunks were written then."""
    manifest = keep(vault, a_folder(folder / name, {name: content + name.encode()}))
    for kind, digests in (("manifests", (manifest.digest,)), ("chunks", manifest.chunks)):
        for digest in digests:
            os.utime(vault.root / kind / digest[:2] / digest[2:], (NOW - age, NOW - age))
    return manifest.digest


@pytest.mark.parametrize(
    ("age", "named", "needed", "gone"),
    [
        (5, False, False, False),
        (20, False, False, True),
        (20, True, False, False),
        (2000, True, False, True),
        (2000, True, True, False),
        (2000, False, True, False),
    ],
)
def test_an_artefact_goes_by_who_names_it_and_by_its_age(
    age: float, named: bool, needed: bool, gone: bool
) -> None:
    one = frozenset({"d"})
    assert goes("d", age, an_order(known=one if named else (), needed=one if needed else ())) is gone


def test_an_order_survives_the_way_to_another_process() -> None:
    order = an_order(known=frozenset({"a", "b"}), live=frozenset({"j1"}))
    assert read_order(order.text()) == order


def test_what_goes_takes_only_the_chunks_that_nobody_else_has(vault: ArtifactStore, tmp_path: Path) -> None:
    shared = b"s" * (CHUNK + 1)
    folder = a_folder(tmp_path / "one", {"big": shared, "note": b"1"})
    first = keep(vault, folder).digest
    (folder / "note").write_bytes(b"2")
    second = keep(vault, folder).digest
    for path in [*(vault.root / "chunks").glob("*/*"), *(vault.root / "manifests").glob("*/*")]:
        os.utime(path, (NOW - 20, NOW - 20))
    swept = sweep(vault, an_order(known=frozenset({second})), NOW)
    assert (swept.artefacts, swept.chunks) == (1, 1)
    assert not vault.whole(first)
    lent = fetch(vault, NODE, second, PLENTY)
    assert contents(lent.path) == contents(folder)
    lent.give_back()


def test_a_sweep_that_died_between_a_list_and_its_chunks_is_finished_by_the_next(
    vault: ArtifactStore, tmp_path: Path
) -> None:
    digest = an_artefact(vault, tmp_path, "a", 20)
    vault.remove("manifests", digest)
    assert sweep(vault, an_order(), NOW).chunks == 1
    assert list(vault.kept("chunks")) == []


def test_what_is_being_brought_in_is_not_swept_away(vault: ArtifactStore, tmp_path: Path) -> None:
    """A sweep between any two chunks, whatever their age: the artefact is whole in the end."""
    folder = a_folder(tmp_path / "data", {"big": b"a" * CHUNK + b"b" * CHUNK + b"c"})
    ruthless = an_order(grace=-1.0)
    sweeps: list[Swept] = []

    def tell(done: int, total: int) -> None:
        if len(sweeps) < 4:
            sweeps.append(sweep(ArtifactStore(vault.root), ruthless, NOW * 1e6))

    digest = keep(vault, folder, tell).digest
    assert sum(one.chunks for one in sweeps) > 0
    lent = fetch(vault, NODE, digest, PLENTY)
    assert contents(lent.path) == contents(folder)
    lent.give_back()


def test_keeping_and_sweeping_at_once_never_leaves_half_an_artefact(
    vault: ArtifactStore, tmp_path: Path
) -> None:
    folder = a_folder(tmp_path / "data", {"a": b"a" * 1000, "b": b"b" * 1000})
    done = threading.Event()
    halves: list[str] = []

    def look() -> None:
        own = ArtifactStore(vault.root)
        while not done.is_set():
            sweep(own, an_order(grace=-1.0), NOW * 1e6)
            with own.locked(alone=True):
                halves.extend(digest for digest, _ in own.kept("manifests") if not own.whole(digest))

    sweeper = threading.Thread(target=look)
    sweeper.start()
    try:
        for number in range(40):
            (folder / "a").write_bytes(f"{number}".encode() * 100)
            with suppress(Conflict):  # without any grace it may be swept away each time it tries
                keep(vault, folder)
    finally:
        done.set()
        sweeper.join()
    assert halves == []


def test_what_was_used_a_moment_ago_is_young_again(vault: ArtifactStore, tmp_path: Path) -> None:
    digest = an_artefact(vault, tmp_path, "a", 2000)
    fetch(vault, NODE, digest, PLENTY).give_back()
    sweep(vault, an_order(known=frozenset({digest})), NOW)
    assert vault.whole(digest)


def test_the_cache_forgets_what_is_no_longer_kept_and_folders_of_ended_jobs_go(
    vault: ArtifactStore, tmp_path: Path
) -> None:
    digest = an_artefact(vault, tmp_path, "a", 20)
    fetch(vault, NODE, digest, PLENTY).give_back()
    os.utime(vault.root / "manifests" / digest[:2] / digest[2:], (NOW - 20, NOW - 20))
    for job in ("ended", "lives", "new"):
        a_folder(vault.root / "work" / job, {"data/x": b"1"})
        age = 1 if job == "new" else 20
        os.utime(vault.root / "work" / job, (NOW - age, NOW - age))
    sweep(vault, an_order(live=frozenset({"lives"})), NOW)
    assert list((vault.root / "cache" / NODE).iterdir()) == []
    assert sorted(path.name for path in (vault.root / "work").iterdir()) == ["lives", "new"]
    with pytest.raises(NotFound):
        vault.manifest(digest)


def test_what_never_got_its_name_is_removed(vault: ArtifactStore) -> None:
    for name, age in (("old", 20), ("young", 1)):
        path = vault.root / "partial" / name
        path.write_bytes(b"half")
        os.utime(path, (NOW - age, NOW - age))
    assert sweep(vault, an_order(), NOW).freed == 4
    assert [path.name for path in (vault.root / "partial").iterdir()] == ["young"]
