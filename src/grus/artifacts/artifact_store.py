"""Artifact store of one user: chunks and manifests, each content-addressed by its hash.

    chunks/ab/cdef…         bytes; complete and on disk before they have this name
    manifests/ab/cdef…      an artifact; written last: all chunks that it names are there
    partial/                incomplete data; nothing in it counts
    lock                    shared by writers, exclusive for the garbage collector
    cache/<node>/<digest>/  artifacts as files, for jobs to read (`cache`)
    work/<job>/<output>/    folders that jobs fill (`stage`)

The time of a manifest is that of its last use. A writer holds the lock only from a check to the write that
depends on it; data that was removed in between is stored again.
"""

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grus.artifacts.manifest import DamagedArtifact, Manifest, Piece, digest_of, is_digest, length, read
from grus.model.errors import NotFound

CHUNKS, MANIFESTS, PARTIAL, CACHE, WORK, LOCK = "chunks", "manifests", "partial", "cache", "work", "lock"
FOLDERS = (CHUNKS, MANIFESTS, PARTIAL, CACHE, WORK)
LARGEST_MANIFEST = 1 << 28


class LostChunk(Exception):
    """A chunk that was there is not there any more."""


class ArtifactStore:
    """One folder; for any number of processes at once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._unsynced: set[Path] = set()
        """Folders with new names that a loss of power could still take away."""

    def make(self) -> None:
        """Create missing folders of the store; the store's own folder is there already."""
        for name in FOLDERS:
            (self.root / name).mkdir(mode=0o700, exist_ok=True)
        _sync(self.root)

    # ---------------------------------------------------------------------------------- bringing in

    def put_chunk(self, content: bytes) -> str:
        """Keep these bytes; the name they are found under. Not final before the `commit` of a manifest."""
        digest = digest_of(content)
        place = self._place(CHUNKS, digest)
        with self.locked():
            if _content(place, len(content)) != content:  # missing, or different
                self._write(place, content)
            else:
                os.utime(place)
                self._unsynced.add(place.parent)  # its writer may not have got that far
        return digest

    def commit(self, manifest: Manifest) -> str:
        """Make the artifact permanent. Raises LostChunk if a chunk of it was removed meanwhile."""
        content = manifest.text()
        digest = digest_of(content)
        with self.locked():
            if not self._complete(manifest):
                raise LostChunk(digest)
            for folder in (*sorted(self._unsynced), self.root / CHUNKS):
                _sync(folder)
            self._unsynced = set()
            place = self._place(MANIFESTS, digest)
            if _content(place, len(content)) == content:
                os.utime(place)
            else:
                self._write(place, content)
            _sync(place.parent)
            _sync(self.root / MANIFESTS)
        return digest

    def _write(self, place: Path, content: bytes) -> None:
        """The file appears whole, and on disk, or not at all."""
        place.parent.mkdir(mode=0o700, exist_ok=True)
        partial = self.root / PARTIAL / f"{os.getpid()}.{os.urandom(8).hex()}"
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o400)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(file, view) :]
            os.fsync(file)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
        finally:
            os.close(file)
        os.replace(partial, place)
        self._unsynced.add(place.parent)

    # -------------------------------------------------------------------------------------- reading

    def manifest(self, digest: str) -> Manifest:
        """Raises NotFound if it is not kept (any more), Damaged if it is not what it was."""
        content = _content(self._place(MANIFESTS, digest)) if is_digest(digest) else None
        if content is None:
            raise NotFound(f"artefact {digest[:12]} is not kept any more")
        if digest_of(content) != digest:
            raise DamagedArtifact(
                f"artefact {digest[:12]} is damaged: its list of files has changed on the disk"
            )
        return read(content)

    def chunk(self, digest: str, parts: tuple[Piece, ...]) -> bytes:
        """Its bytes, which are what they were. Raises DamagedArtifact."""
        content = _content(self._place(CHUNKS, digest), length(parts))
        if content is None or digest_of(content) != digest:
            what = "missing" if content is None else "changed on the disk"
            names = parts[0].entry.path + (f" and {len(parts) - 1} more" if len(parts) > 1 else "")
            raise DamagedArtifact(f"a chunk of {names} is {what}")
        return content

    def whole(self, digest: str) -> bool:
        """Return whether the artifact is complete, by names and sizes."""
        try:
            return self._complete(self.manifest(digest))
        except (NotFound, DamagedArtifact):
            return False

    def sound(self, kind: str, digest: str) -> bytes | None:
        """Return the bytes of a chunk or manifest, if they match its name; else None."""
        content = _content(self._place(kind, digest))
        return content if content is not None and digest_of(content) == digest else None

    def used(self, digest: str) -> None:
        """Note that it is in use now."""
        os.utime(self._place(MANIFESTS, digest), follow_symlinks=False)

    def _complete(self, manifest: Manifest) -> bool:
        return all(_size(self._place(CHUNKS, digest)) == length(parts) for digest, parts in manifest.parts())

    # ------------------------------------------------------------------------------------- throwing out

    def kept(self, kind: str) -> Iterator[tuple[str, float]]:
        """Digests of all chunks, or manifests, with their times."""
        for folder in sorted(_listed(self.root / kind)):
            for name in sorted(_listed(folder)):
                digest = folder.name + name.name
                if is_digest(digest):
                    yield digest, name.lstat().st_mtime

    def remove(self, kind: str, digest: str) -> int:
        """Its bytes, which are free now."""
        place = self._place(kind, digest)
        size = place.lstat().st_size
        place.unlink()
        return size

    @contextmanager
    def locked(self, *, alone: bool = False) -> Iterator[None]:
        """Keep out garbage collection; with `alone`, writers too. A dead process holds no lock."""
        file = os.open(self.root / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            yield
        finally:
            os.close(file)

    def _place(self, kind: str, digest: str) -> Path:
        return self.root / kind / digest[:2] / digest[2:]


def sweep_partial(vault: ArtifactStore, before: float) -> int:
    """Remove what never got to its name; how many bytes that was."""
    freed = 0
    for path in _listed(vault.root / PARTIAL):
        status = path.lstat()
        if status.st_mtime < before:
            path.unlink(missing_ok=True)
            freed += status.st_size
    return freed


def now() -> float:
    """Return the time of the files' own clock."""
    return time.time()


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _size(path: Path) -> int | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _content(path: Path, size: int | None = None) -> bytes | None:
    """Return the content of a regular file (of this size, if one is given); None if there is no such file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_MANIFEST:
            return None
        return opened.read() if size is None or status.st_size == size else None


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
