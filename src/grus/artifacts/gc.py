"""Garbage collection of an artifact store. Its owner runs it, and the server passes the recorded references:

    python -m grus.artifacts.gc STORE < order.json

An artifact that no recorded job and no result names is removed after `grace`, in which it may yet be
reported. A named one is removed when it was not used for `keep` seconds, unless a job that has not ended has
it as an input. Manifests are removed before their chunks: an interrupted sweep leaves chunks without a name,
for the next sweep.
"""

import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grus.artifacts import artifact_store, cache
from grus.artifacts.artifact_store import CACHE, CHUNKS, MANIFESTS, WORK, ArtifactStore
from grus.artifacts.manifest import DamagedArtifact
from grus.model.errors import NotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Order of a sweep; ages in seconds."""

    needed: frozenset[str] = frozenset()
    """Inputs of jobs that have not ended."""
    known: frozenset[str] = frozenset()
    """Everything that is named by a job or a result on record."""
    live: frozenset[str] = frozenset()
    """Jobs that have not ended."""
    keep: float
    grace: float
    budget: int
    """Bytes of the cache of each node."""

    def text(self) -> str:
        told = asdict(self)
        return json.dumps({name: sorted(v) if isinstance(v, frozenset) else v for name, v in told.items()})


@dataclass(slots=True)
class Swept:
    """Removed artifacts and chunks."""

    artefacts: int = 0
    chunks: int = 0
    freed: int = 0
    """Bytes."""


def read_order(text: str) -> Order:
    told: dict[str, Any] = json.loads(text)
    sets: dict[str, Any] = {name: frozenset(told[name]) for name in ("needed", "known", "live")}
    return Order(**(told | sets))


def goes(digest: str, age: float, order: Order) -> bool:
    """Return whether an artifact that was last used `age` seconds ago is removed."""
    if digest in order.needed or age <= order.grace:
        return False
    return age > order.keep if digest in order.known else True


def sweep(place: ArtifactStore, order: Order, now: float) -> Swept:
    """All of it; may be repeated, and may die anywhere."""
    swept = Swept()
    with place.locked(alone=True):
        for digest, at in list(place.kept(MANIFESTS)):
            if goes(digest, now - at, order):
                swept.freed += place.remove(MANIFESTS, digest)
                swept.artefacts += 1
        named = _named(place)
        for digest, at in list(place.kept(CHUNKS)):
            if digest not in named and now - at > order.grace:
                swept.freed += place.remove(CHUNKS, digest)
                swept.chunks += 1
        swept.freed += artifact_store.sweep_partial(place, now - order.grace)
    kept = {digest for digest, _ in place.kept(MANIFESTS)}
    for node in _folders(place.root / CACHE):
        swept.freed += _sweep_cache(node, kept, order.budget)
    for folder in _folders(place.root / WORK):
        if folder.name not in order.live and now - folder.lstat().st_mtime > order.grace:
            cache.remove_tree(folder)
    return swept


def _named(place: ArtifactStore) -> set[str]:
    """Return the chunks of all stored artifacts. A damaged one names none: it cannot be restored."""
    found: set[str] = set()
    for digest, _ in place.kept(MANIFESTS):
        with suppress(DamagedArtifact, NotFound):
            found.update(place.manifest(digest).chunks)
    return found


def _sweep_cache(node: Path, kept: set[str], budget: int) -> int:
    gone = [one for one in cache.shelved(node) if one.folder.name not in kept]
    freed = sum(one.size for one in gone if cache.throw_out(one.folder))
    return freed + cache.trim(node, budget)


def _folders(top: Path) -> list[Path]:
    with suppress(FileNotFoundError):
        return sorted(path for path in top.iterdir() if path.is_dir() and not path.is_symlink())
    return []


def main(root: str) -> None:
    os.nice(10)  # jobs come first
    place = ArtifactStore(Path(root))
    place.make()
    swept = sweep(place, read_order(sys.stdin.read()), artifact_store.now())
    sys.stdout.write(json.dumps(asdict(swept)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
