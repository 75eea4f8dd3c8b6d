"""Node cache: artifacts as files, on the node that reads them, within a budget of bytes.

    <digest>/use       locked while it is read; its time is that of the last use
    <digest>/build     locked by the process that fills it
    <digest>/size      bytes that it takes, known before the first is there
    <digest>/tree/     the files, read-only
    <digest>/whole     written last: since which boot, and the state of the files then

The cache need not survive a loss of power: files that were not written in this boot, or that have changed
since, are verified against their hashes and repaired. The same holds after an interrupted copy, which
continues where it stopped.
"""

import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from grus.artifacts.artifact_store import CACHE, ArtifactStore
from grus.artifacts.artifact_upload import Tell
from grus.artifacts.manifest import FILE, FOLDER, LINK, Manifest, Piece, digest_of, is_digest

USE, BUILD, SIZE, TREE, WHOLE = "use", "build", "size", "tree", "whole"
BOOT = Path("/proc/sys/kernel/random/boot_id")


class ArtifactLease:
    """An artifact in use: it is not evicted until `give_back`, or the death of this process."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        """Path of the folder, or of the single file."""
        self._handle = handle

    def give_back(self) -> None:
        """Idempotent."""
        if self._handle >= 0:
            with suppress(OSError):
                os.utime(self._handle)
            os.close(self._handle)
            self._handle = -1


def fetch(
    vault: ArtifactStore, node: str, digest: str, budget: int, tell: Tell = lambda *_: None
) -> ArtifactLease:
    """Return the artifact as files on this node, complete
    and unchanged. Raises NotFound, Damaged, OSError.
    """
    manifest = vault.manifest(digest)
    with suppress(OSError):  # a read-only store
        vault.used(digest)
    entry = vault.root / CACHE / node / digest
    handle = _hold(entry)
    try:
        if not _is_whole(entry, manifest):
            trim(vault.root / CACHE / node, max(0, budget - manifest.size))
            _fill(vault, entry, manifest, tell)
    except BaseException:
        os.close(handle)
        raise
    path = entry / TREE
    return ArtifactLease(path / manifest.entries[0].path if manifest.single else path, handle)


def _hold(entry: Path) -> int:
    """Lock the entry against eviction; an entry that is locked is skipped by evictions."""
    while True:
        try:
            entry.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(entry / USE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            continue  # evicted between the two lines
        except FileExistsError:
            if os.path.lexists(entry) and not entry.is_dir():
                raise
            continue  # evicted while mkdir checked whether the existing entry is a folder
        fcntl.flock(handle, fcntl.LOCK_SH)
        if _same(handle, entry / USE):
            os.utime(handle)
            return handle
        os.close(handle)  # locked too late: it was evicted, and there may be another one by now


def _same(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


# -------------------------------------------------------------------------------------------- filling


def _fill(vault: ArtifactStore, entry: Path, manifest: Manifest, tell: Tell) -> None:
    """Write missing files, one process at a time; processes that waited find them complete."""
    build = os.open(entry / BUILD, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(build, fcntl.LOCK_EX)
        if _is_whole(entry, manifest):
            return
        (entry / WHOLE).unlink(missing_ok=True)
        (entry / SIZE).write_text(str(manifest.size))
        tree = entry / TREE
        fresh = not tree.exists()
        tree.mkdir(mode=0o700, exist_ok=True)
        if not fresh:
            _clear(tree, manifest)
        _make_places(tree, manifest)
        _write_files(vault, tree, manifest, tell, fresh=fresh)
        _close_up(tree, manifest)
        stamp = {"boot": BOOT.read_text().strip(), "looks": _looks(tree, manifest)}
        written = entry / f"{WHOLE}.new"
        written.write_text(json.dumps(stamp))
        written.replace(entry / WHOLE)
    finally:
        os.close(build)


def _folders(manifest: Manifest) -> list[str]:
    """Every folder below the tree, the outer ones first."""
    found = {entry.path for entry in manifest.entries if entry.kind == FOLDER}
    for entry in manifest.entries:
        above = os.path.dirname(entry.path)
        while above and above not in found:
            found.add(above)
            above = os.path.dirname(above)
    return sorted(found)


def _clear(tree: Path, manifest: Manifest) -> None:
    """Open what is there for writing, and remove what does not belong."""
    wanted = {entry.path: entry.kind for entry in manifest.entries}
    wanted |= dict.fromkeys(_folders(manifest), FOLDER)
    tree.chmod(0o700)
    folders = [""]
    while folders:
        at = folders.pop()
        for one in list(os.scandir(tree / at)):
            relative = f"{at}/{one.name}" if at else one.name
            folder = one.is_dir(follow_symlinks=False)
            kind = FOLDER if folder else LINK if one.is_symlink() else FILE
            if wanted.get(relative) != kind:
                remove_tree(Path(one.path)) if folder else os.unlink(one.path)
            elif folder:
                os.chmod(one.path, 0o700)
                folders.append(relative)
            elif kind == FILE:
                os.chmod(one.path, 0o600)


def _make_places(tree: Path, manifest: Manifest) -> None:
    """Folders, links, and every file as long as it will be at most."""
    for folder in _folders(manifest):
        os.makedirs(tree / folder, mode=0o700, exist_ok=True)
    for entry in manifest.entries:
        path = os.path.join(tree, entry.path)
        if entry.kind == FILE:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                if os.fstat(file).st_size > entry.size:
                    os.ftruncate(file, entry.size)
            finally:
                os.close(file)
        elif entry.kind == LINK and not (os.path.islink(path) and os.readlink(path) == entry.target):
            with suppress(FileNotFoundError):
                os.unlink(path)
            os.symlink(entry.target, path)


def _write_files(vault: ArtifactStore, tree: Path, manifest: Manifest, tell: Tell, *, fresh: bool) -> None:
    done = 0
    for digest, parts in manifest.parts():
        # Otherwise an earlier try got this far.
        if fresh or digest_of(_present(tree, parts)) != digest:
            content = memoryview(vault.chunk(digest, parts))
            for piece in parts:
                _put(os.path.join(tree, piece.entry.path), content[: piece.length], piece.offset)
                content = content[piece.length :]
        done += sum(piece.length for piece in parts)
        tell(done, manifest.size)


def _present(tree: Path, parts: tuple[Piece, ...]) -> bytes:
    found = []
    for piece in parts:
        with open(os.path.join(tree, piece.entry.path), "rb") as file:
            file.seek(piece.offset)
            found.append(file.read(piece.length))
    return b"".join(found)


def _put(path: str, content: memoryview, offset: int) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        while content:
            count = os.pwrite(file, content, offset)
            content, offset = content[count:], offset + count
    finally:
        os.close(file)


def _close_up(tree: Path, manifest: Manifest) -> None:
    """Make the files read-only, because others read the same ones."""
    for entry in manifest.entries:
        if entry.kind == FILE:
            os.chmod(os.path.join(tree, entry.path), 0o500 if entry.executable else 0o400)
    for folder in (*reversed(_folders(manifest)), ""):
        os.chmod(os.path.join(tree, folder), 0o500)


def _is_whole(entry: Path, manifest: Manifest) -> bool:
    try:
        stamp = json.loads((entry / WHOLE).read_text())
        looks = {"boot": BOOT.read_text().strip(), "looks": _looks(entry / TREE, manifest)}
        return bool(stamp == looks)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _looks(tree: Path, manifest: Manifest) -> str:
    """Return a digest of the files' metadata; it differs when a file was written to."""
    rows = []
    for entry in manifest.entries:
        status = os.lstat(os.path.join(tree, entry.path))
        kind = stat.S_IFMT(status.st_mode)
        rows.append((entry.path, kind, 0 if entry.kind == FOLDER else (status.st_size, status.st_mtime_ns)))
    return digest_of(json.dumps(rows).encode())


# ---------------------------------------------------------------------------------------- throwing out


@dataclass(frozen=True, slots=True, order=True)
class CachedArtifact:
    """One artifact in a cache."""

    used_at: float
    folder: Path
    size: int


def shelved(cache: Path) -> Iterator[CachedArtifact]:
    """Yield the entries in the cache of a node, complete or partial."""
    with suppress(FileNotFoundError):
        for folder in cache.iterdir():
            if is_digest(folder.name):
                with suppress(OSError):
                    yield CachedArtifact((folder / USE).lstat().st_mtime, folder, _size_of(folder))


def _size_of(entry: Path) -> int:
    try:
        return int((entry / SIZE).read_text())
    except (OSError, ValueError):
        return 0


def trim(cache: Path, budget: int) -> int:
    """Evict the least recently used entries until the rest fits, never one in use; return the bytes freed."""
    found = sorted(shelved(cache))
    held = sum(one.size for one in found)
    freed = 0
    for one in found:
        if held - freed <= budget:
            break
        if throw_out(one.folder):
            freed += one.size
    return freed


def throw_out(entry: Path) -> bool:
    """Remove one artifact from the cache, unless it is in use; return whether it is gone."""
    try:
        handle = os.open(entry / USE, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _same(handle, entry / USE):
            return False
        (entry / WHOLE).unlink(missing_ok=True)
        remove_tree(entry / TREE)
        for name in (BUILD, SIZE, f"{WHOLE}.new", USE):  # the file that keeps others out is removed last
            (entry / name).unlink(missing_ok=True)
        with suppress(OSError):  # another process has started to fill it again
            entry.rmdir()
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def remove_tree(top: Path) -> None:
    """Remove a folder whose subfolders are read-only."""
    for folder, folders, _ in os.walk(top):
        os.chmod(folder, 0o700)
        for name in folders:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    shutil.rmtree(top, ignore_errors=True)
