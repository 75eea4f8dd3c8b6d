"""A disk as it may be after a loss of power, made from a journal of what reached it (`journal.c`). Pure but
for reading the journal.

What is certain: content of a file up to its last fsync, names in a folder up to that folder's last fsync. Of
all that came later any part may be there: each 512-byte sector of each write, each change of size, each
change of names. What the strictest file system allows is assumed: an fsync of a file brings no name to the
disk, not even its own. A rename is one change, also between two folders. Space that was gained but not yet
filled holds zeros or rubbish.

Changes through memory maps are not in the journal. SQLite has one only for its `-shm`, which means nothing
after a loss of power: such files are left out.
"""

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

SECTOR = 512
SKIPPED = ("-shm",)
"""Ends of names of files that do not outlive the power."""
Image = dict[str, bytes | None]
"""Each file's content by its path, None for folders; a folder comes before what is in it."""
_HEAD = struct.Struct("=IIQQQ")
_KEPT = (0.0, 0.0, 0.1, 0.5, 0.9, 1.0)
"""Chances that a part of what is uncertain lasts, one of which is drawn for each file of each image."""
_OTHER_SIZE = 0.3
"""Chance that a file's size is that of another moment than its content."""


class Kind(IntEnum):
    """As in `journal.c`."""

    CREATE = 1
    MKDIR = 2
    WRITE = 3
    SIZE = 4
    SYNC = 5
    RENAME = 6
    LINK = 7
    REMOVE = 8
    GROW = 9


@dataclass(frozen=True, slots=True)
class Operation:
    kind: Kind
    inode: int = 0
    paths: tuple[str, ...] = ()
    offset: int = 0
    """Of a write; the new size for SIZE and GROW."""
    data: bytes = b""


END = Operation(Kind.SYNC)
"""Of nothing: it changes nothing."""


def read(journal: Path) -> Iterator[Operation]:
    """All whole entries; the last one of a process that was killed may be cut off."""
    with open(journal, "rb") as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            kind, path_bytes, inode, offset, data_bytes = _HEAD.unpack(head)
            paths, data = file.read(path_bytes), file.read(data_bytes)
            if len(paths) < path_bytes or len(data) < data_bytes:
                return
            names = tuple(path.decode() for path in paths.split(b"\0")) if paths else ()
            yield Operation(Kind(kind), inode, names, offset, data)


@dataclass(slots=True, eq=False)
class File:
    """One file: what is certainly on the disk, and what came later."""

    content: bytearray = field(default_factory=bytearray)
    later: list[Operation] = field(default_factory=list)

    def sync(self) -> None:
        for operation in self.later:
            _apply(self.content, operation)
        self.later.clear()

    def now(self) -> bytes:
        """As a program reads it while there is power."""
        content = bytearray(self.content)
        for operation in self.later:
            _apply(content, operation)
        return bytes(content)

    def after_cut(self, chance: random.Random) -> bytes:
        """As it may be after a loss of power."""
        if not self.later:
            return bytes(self.content)
        content, sizes = bytearray(self.content), [len(self.content)]
        whole = bytearray(self.content)
        kept = chance.choice(_KEPT)
        for operation in self.later:
            _apply(whole, operation)
            sizes.append(len(whole))
            for part in _sectors(operation):
                if chance.random() < kept:
                    _apply(content, part, chance)
                    if part.kind is Kind.SIZE:
                        sizes = [len(content)]  # what was cut off does not come back
        if chance.random() < _OTHER_SIZE:
            _resize(content, chance.choice(sizes), chance)
        return bytes(content)


@dataclass(slots=True, eq=False)
class Folder:
    """Names that are certainly on the disk (`lasting`), and those that a program sees (`names`)."""

    lasting: "dict[str, File | Folder]" = field(default_factory=dict)
    names: "dict[str, File | Folder]" = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Renaming:
    """One change of names, which lasts as a whole or not at all; None takes a name away."""

    slots: tuple[tuple[Folder, str, File | Folder | None], ...]

    @property
    def places(self) -> set[tuple[int, str]]:
        return {(id(folder), name) for folder, name, _ in self.slots}


@dataclass(slots=True)
class Disk:
    """What the journal has said so far about the folder `top`, whose inode is `inode`."""

    top: str
    inode: int
    root: Folder = field(default_factory=Folder)
    _nodes: dict[int, File | Folder] = field(default_factory=dict)
    _later: list[Renaming] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._nodes[self.inode] = self.root

    @classmethod
    def of(cls, top: Path) -> "Disk":
        """With what is in the folder now; all of that is certain."""
        disk = cls(str(top), top.stat().st_ino)
        disk._take(top, disk.root)
        return disk

    def _take(self, path: Path, folder: Folder) -> None:
        for entry in path.iterdir():
            node = Folder() if entry.is_dir() else File(bytearray(entry.read_bytes()))
            self._nodes[entry.stat().st_ino] = folder.names[entry.name] = folder.lasting[entry.name] = node
            if isinstance(node, Folder):
                self._take(entry, node)

    # ------------------------------------------------------------------------------------ what happens

    def do(self, operation: Operation) -> None:
        node = self._nodes.get(operation.inode)
        match operation.kind:
            case Kind.WRITE | Kind.SIZE | Kind.GROW:
                if isinstance(node, File):
                    node.later.append(operation)
            case Kind.SYNC:
                if node is not None:
                    self._sync(node)
            case Kind.CREATE | Kind.MKDIR:
                # A new one, though the number may be that of one that is gone.
                self._nodes[operation.inode] = new = File() if operation.kind is Kind.CREATE else Folder()
                self._rename((*self._place(operation.paths[0]), new))
            case Kind.LINK:
                if node is not None:
                    self._rename((*self._place(operation.paths[1]), node))
            case Kind.RENAME:
                if node is not None:
                    old, new_place = (self._place(path) for path in operation.paths)
                    self._rename((*old, None), (*new_place, node))
            case Kind.REMOVE:
                self._rename((*self._place(operation.paths[0]), None))

    def _place(self, path: str) -> tuple[Folder, str]:
        *way, name = path.removeprefix(self.top).strip("/").split("/")
        folder = self.root
        for part in way:
            inner = folder.names[part]
            assert isinstance(inner, Folder), path
            folder = inner
        return folder, name

    def _rename(self, *slots: tuple[Folder, str, File | Folder | None]) -> None:
        for folder, name, node in slots:
            _set(folder.names, name, node)
        self._later.append(Renaming(slots))

    def _sync(self, node: File | Folder) -> None:
        """A folder's changes of names last, with what came before them at the same names."""
        if isinstance(node, File):
            node.sync()
            return
        lasting = self._with_causes(lambda change: any(folder is node for folder, _, _ in change.slots))
        for change in lasting:
            for folder, name, end in change.slots:
                _set(folder.lasting, name, end)
        gone = {id(change) for change in lasting}
        self._later = [change for change in self._later if id(change) not in gone]

    def _with_causes(self, chosen: Callable[[Renaming], bool]) -> list[Renaming]:
        """The chosen ones of the uncertain changes, with those before them at the same names; in order."""
        found: list[Renaming] = []
        touched: set[tuple[int, str]] = set()
        for change in reversed(self._later):
            if chosen(change) or change.places & touched:
                found.append(change)
                touched |= change.places
        return found[::-1]

    # ---------------------------------------------------------------------------------- what is there

    def now(self) -> Image:
        """As programs see it while there is power."""
        return dict(_listed(self.root, "", lambda folder: folder.names, File.now))

    def after_cut(self, chance: random.Random) -> Image:
        """The same as it may be after a loss of power now."""
        kept = chance.choice(_KEPT)
        names = {id(folder): dict(folder.lasting) for folder in self._folders()}
        for change in self._with_causes(lambda _: chance.random() < kept):
            for folder, name, node in change.slots:
                _set(names[id(folder)], name, node)
        contents: dict[int, bytes] = {}

        def content(file: File) -> bytes:
            if id(file) not in contents:  # two names of one file show the same
                contents[id(file)] = file.after_cut(chance)
            return contents[id(file)]

        return dict(_listed(self.root, "", lambda folder: names[id(folder)], content))

    def _folders(self) -> Iterator[Folder]:
        """All that a name may lead to, now or in a change that is not certain yet."""
        seen: dict[int, Folder] = {}
        waiting: list[File | Folder | None] = [self.root]
        waiting += [end for change in self._later for slot in change.slots for end in (slot[0], slot[2])]
        while waiting:
            node = waiting.pop()
            if isinstance(node, Folder) and id(node) not in seen:
                seen[id(node)] = node
                waiting += [*node.lasting.values(), *node.names.values()]
        yield from seen.values()


def lay_out(image: Image, folder: Path) -> None:
    """Make files and folders of an image, in a new folder."""
    folder.mkdir()
    for path, content in image.items():
        if content is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(content)


def _listed(
    folder: Folder,
    above: str,
    names: "Callable[[Folder], dict[str, File | Folder]]",
    content: Callable[[File], bytes],
) -> Iterator[tuple[str, bytes | None]]:
    for name, node in names(folder).items():
        if isinstance(node, Folder):
            yield above + name, None
            yield from _listed(node, f"{above}{name}/", names, content)
        elif not name.endswith(SKIPPED):
            yield above + name, content(node)


def _set(names: "dict[str, File | Folder]", name: str, node: "File | Folder | None") -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _sectors(operation: Operation) -> Iterator[Operation]:
    """The parts of a write that a disk takes or loses each on its own."""
    if operation.kind is not Kind.WRITE:
        yield operation
        return
    at, end = operation.offset, operation.offset + len(operation.data)
    while at < end:
        following = min(end, (at // SECTOR + 1) * SECTOR)
        part = operation.data[at - operation.offset : following - operation.offset]
        yield Operation(Kind.WRITE, operation.inode, offset=at, data=part)
        at = following


def _apply(content: bytearray, operation: Operation, chance: random.Random | None = None) -> None:
    if operation.kind is Kind.WRITE:
        if operation.offset > len(content):
            _resize(content, operation.offset, chance)
        content[operation.offset : operation.offset + len(operation.data)] = operation.data
    elif operation.kind is Kind.SIZE or operation.offset > len(content):
        _resize(content, operation.offset, chance)


def _resize(content: bytearray, size: int, chance: random.Random | None) -> None:
    gained = size - len(content)
    if gained < 0:
        del content[size:]
    elif chance is not None and chance.random() < 0.5:
        content += chance.randbytes(gained)
    else:
        content += bytes(gained)
