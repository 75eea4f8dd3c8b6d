"""Source files that a stage runs: the files that its command names, and their imports.

A change of another file of the folder does not change such a stage. If the files cannot be determined – a
shell script, a command that names no file, code that loads other code in its own way – all source counts.
Reads the disk.
"""

import ast
import json
import os.path
from collections.abc import Iterable, Iterator
from pathlib import Path

from grus.controlplane.fingerprint import fingerprints
from grus.model.job_spec import TRAINER
from grus.model.jobs import Spec

PYTHON = ".py"
LARGEST = 1 << 20
"""Largest file that is read, in bytes."""
LOADERS = frozenset({"importlib", "runpy", "subprocess", "imp", "pkgutil"})
"""Modules that load other code in ways that cannot be followed statically."""
CALLS = frozenset({"__import__", "exec", "eval", "compile"})
METHODS = frozenset(
    {"import_module", "run_path", "run_module", "system", "popen", "Popen", "spec_from_file_location"}
    | {"execv", "execve", "execvp", "execvpe", "execl", "execlp", "spawnv", "posix_spawn"}
)


class _UnknownTarget(Exception):
    """The reached files cannot be determined."""


def reached(spec: Spec) -> list[str] | None:
    """Return paths below the workdir, in order; None if they cannot be determined."""
    root = Path(spec.workdir)
    if "PYTHONPATH" in dict(spec.env):
        return None
    try:
        begun = [
            *_entries(spec.run, root, needed=bool(spec.run)),
            *(name for role in spec.request.roles if role.run for name in _entries(role.run, root)),
            *(name for line in spec.setup for name in _entries((line,), root, needed=False)),
        ]
        return sorted(_closure(begun, root))
    except _UnknownTarget:
        return None


def _entries(argv: Iterable[str], root: Path, *, needed: bool = True) -> list[str]:
    argv = tuple(argv)
    if argv[: len(TRAINER)] == TRAINER:
        found = list(_of_section(argv[len(TRAINER)], root))
    else:
        found = list(_of_words([word for part in argv for word in fingerprints.words(part)], root))
    if needed and not found:
        raise _UnknownTarget
    return found


def _of_section(text: str, root: Path) -> Iterator[str]:
    """The functions that a `train` section names."""
    for value in json.loads(text).values():
        for told in value.values() if isinstance(value, dict) else (value,):
            place, colon, _ = told.partition(":") if isinstance(told, str) else ("", "", "")
            if not colon:
                continue
            name = place if place.endswith(PYTHON) else _module(place, [root], root)
            if name is None or not (root / name).is_file():
                raise _UnknownTarget
            yield os.path.normpath(name)


def _of_words(words: list[str], root: Path) -> Iterator[str]:
    for at, word in enumerate(words):
        name = os.path.normpath(word.partition("=")[2] or word)
        ending = os.path.splitext(name)[1].lower()
        if word == "-m" and at + 1 < len(words):
            if (found := _module(words[at + 1], [root], root)) is not None:
                yield found
        elif ending in fingerprints.SOURCE and (root / name).is_file():
            if ending != PYTHON or os.path.isabs(name) or name.startswith(".."):
                raise _UnknownTarget
            yield name


def _closure(begun: Iterable[str], root: Path) -> set[str]:
    found: set[str] = set()
    left = list(begun)
    folders = {root / os.path.dirname(name) for name in left} | {root}
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += _imports(name, root, sorted(folders))
    return found


def _imports(name: str, root: Path, folders: list[Path]) -> Iterator[str]:
    """Files below the root that this one imports."""
    try:
        text = fingerprints.content_of(root / name, LARGEST)
        tree = ast.parse(b"(" if text is None else text)  # an unreadable file is no program
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _UnknownTarget from error
    for node in ast.walk(tree):
        if _hides(node):
            raise _UnknownTarget
        if isinstance(node, ast.Import):
            for one in node.names:
                yield from _packages(one.name, folders, root)
        elif isinstance(node, ast.ImportFrom):
            yield from _from(node, name, root, folders)


def _from(node: ast.ImportFrom, name: str, root: Path, folders: list[Path]) -> Iterator[str]:
    where = folders
    if node.level:
        here = (root / name).parent
        for _ in range(node.level - 1):
            here = here.parent
        where = [here]
    base = node.module or ""
    yield from _packages(base, where, root)
    for one in node.names:
        yield from _packages(f"{base}.{one.name}" if base else one.name, where, root)


def _packages(module: str, folders: list[Path], root: Path) -> Iterator[str]:
    """The module and the packages around it, as far as they are below the root."""
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        found = _module(".".join(parts[:count]), folders, root)
        if found is not None:
            yield found


def _module(module: str, folders: list[Path], root: Path) -> str | None:
    path = module.replace(".", "/")
    for folder in folders:
        for file in (folder / f"{path}.py", folder / path / "__init__.py"):
            if file.is_file() and file.is_relative_to(root):
                return str(file.relative_to(root))
    return None


def _hides(node: ast.AST) -> bool:
    """Return whether it may load code that cannot be seen here."""
    match node:
        case ast.Import(names=names):
            return any(one.name.split(".")[0] in LOADERS for one in names)
        case ast.ImportFrom(module=str(module), level=0):
            return module.split(".")[0] in LOADERS
        case ast.Name(id=name):
            return name in CALLS
        case ast.Attribute(value=ast.Name(id="sys"), attr="path"):
            return True
        case ast.Attribute(attr=name):
            return name in METHODS
        case _:
            return False
