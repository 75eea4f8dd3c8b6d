"""The state of the sources that a proof runs, as one digest.

A proof runs the whole of src/ and a part of tests/: its program, what that imports, and what it names in
texts, such as the tests that have to catch planted bugs or a module that another process runs. Tests that a
proof does not lead to may change without making another state of it.
"""

import ast
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"\b(?:tests|benchmarks)(?:[./]\w+)+")
"""A module or file of ours in a text: `tests.trust.load_server`, `tests/store/test_sqlite.py::…`."""
FILE = re.compile(r"\w+\.py")
"""A file by its name alone, for a path that is put together: any of that name in tests/ counts."""
READ = (".c", ".sql")
"""Files of tests that are compiled or read and not imported: few, so that all count for every proof."""


def state_of(program: str, root: Path = ROOT) -> str:
    """Of all that the program runs as it lies there, committed or not."""
    whole = hashlib.sha256()
    for path in sorted({*fixed(root), *reached(program, root)}):
        whole.update(str(path.relative_to(root)).encode() + b"\0")
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()[:12]


def fixed(root: Path) -> Iterator[Path]:
    """What every proof runs: the product, the versions of its packages, and what is not Python."""
    yield from (one for one in (root / "src").rglob("*") if one.is_file() and "__pycache__" not in one.parts)
    yield from (one for one in (root / "tests").rglob("*") if one.suffix in READ)
    yield from root.glob("constraints.txt")


def reached(program: str, root: Path) -> set[Path]:
    """The program and all that it leads to outside src/."""
    found: set[Path] = set()
    new = files_of(program, root)
    while new:
        path = new.pop()
        found.add(path)
        led_to = {one for name in names_in(path.read_text("utf-8")) for one in files_of(name, root)}
        new |= {*led_to, *settings_of(path, root)} - found
    return found


def names_in(source: str) -> Iterator[str]:
    """Everything that may be a module of ours."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from [node.value] if FILE.fullmatch(node.value) else NAMED.findall(node.value)


def files_of(name: str, root: Path) -> set[Path]:
    """The file of a module of ours, named with dots or as a path; none if there is no such file."""
    if FILE.fullmatch(name):
        return set((root / "tests").rglob(name))
    if not NAMED.fullmatch(name):
        return set()
    path = root / name.removesuffix(".py").replace(".", "/")
    return {one for one in (path.with_suffix(".py"), path / "__init__.py") if one.is_file()}


def settings_of(path: Path, root: Path) -> set[Path]:
    """What pytest reads with a test: the conftest.py of its folder and of those above."""
    above = [folder for folder in path.parents if folder.is_relative_to(root)]
    return {one for folder in above if (one := folder / "conftest.py").is_file()}
