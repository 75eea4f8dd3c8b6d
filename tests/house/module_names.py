"""Modules of this repository named in texts: strings and comments of Python, pages, settings, recipes.

Nothing is imported: a name is looked up in the tree, and what stands behind the module in its source.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = {"grus": "src", "tests": "", "tools": "", "benchmarks": ""}
"""Packages, each with the folder that holds it."""
FOLDERS = ("src", "tests", "tools", "benchmarks", "docs", "deploy", "examples", "packaging", ".ci")
LEFT_OUT = ("fixtures", "__pycache__", "node_modules")
SUFFIXES = ("", ".py", ".md", ".yaml", ".yml", ".toml", ".txt", ".html", ".ipynb")
"""Suffixes of files that name modules; shell programs and the Makefile have none."""
NAME = re.compile(
    r"(?<![\w./@-])(?:grus|tests|tools|benchmarks)(?:\.[A-Za-z_]\w*)+(?::[A-Za-z_][\w.]*\w)?(?![\w/-])"
)
IMPORT = re.compile(r"\bfrom ((?:grus|tests|tools|benchmarks)[\w.]*) import (\w+(?:, *\w+)*)")
FILES = re.compile(r"[\w.]+\.(?:css|db|dev|js|json|md|py|sock|svg|yaml)(?:\.new)?")
"""Names of files and of domains, which look like names of modules."""

OF_EVERY_MODULE = ("__doc__", "__file__", "__name__", "__path__")
_COMMENT = re.compile(rf"#.*?{NAME.pattern}")


@dataclass(frozen=True, slots=True)
class Named:
    """A dotted name and the place that names it."""

    path: Path
    line: int
    name: str


def texts(root: Path) -> Iterator[Path]:
    """Files that may name a module."""
    yield from (one for one in sorted(root.iterdir()) if one.is_file() and _is_text(one))
    for folder in FOLDERS:
        for one in sorted((root / folder).rglob("*")):
            if one.is_file() and _is_text(one) and not set(one.relative_to(root).parts) & set(LEFT_OUT):
                yield one


def _is_text(path: Path) -> bool:
    return path.suffix in SUFFIXES and not path.name.startswith(".git")


def named_in(path: Path) -> Iterator[Named]:
    source = path.read_text("utf-8")
    pieces = _python(source) if path.suffix == ".py" else [(1, source)]
    for first, text in pieces:
        for at, name in _names(text):
            yield Named(path, first + text.count("\n", 0, at), name)


def _python(source: str) -> Iterator[tuple[int, str]]:
    """Strings and comments, each with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    if _COMMENT.search(source):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def _names(text: str) -> Iterator[tuple[int, str]]:
    for found in NAME.finditer(text):
        if not FILES.fullmatch(found[0]):
            yield found.start(), found[0]
    for found in IMPORT.finditer(text):
        for name in found[2].split(","):
            yield found.start(), f"{found[1]}:{name.strip()}"


def resolves(name: str, root: Path = ROOT) -> bool:
    """True if it is a module or a package, or something that one of them defines."""
    parts = name.replace(":", ".").split(".")
    for count in range(len(parts), 0, -1):
        place, rest = root / PLACES[parts[0]] / Path(*parts[:count]), tuple(parts[count:])
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.is_file():
                return _defines(file, rest)
        if place.is_dir():
            return not rest
    return False


def _defines(file: Path, path: tuple[str, ...]) -> bool:
    found = definitions(file)
    for part in path:
        if part not in found.inside:
            return found.unknown or part in OF_EVERY_MODULE
        found = found.inside[part]
    return True


@dataclass(slots=True)
class Definition:
    """A name and the names inside it, if it is a class."""

    inside: "dict[str, Definition]" = field(default_factory=dict)
    unknown: bool = False
    """True if it may have more: something imported or computed."""


@cache
def definitions(file: Path) -> Definition:
    return _block(ast.parse(file.read_text("utf-8")).body)


def _block(body: list[ast.stmt]) -> Definition:
    found = Definition()
    for statement in body:
        match statement:
            case ast.ClassDef(name=name):
                found.inside[name] = _block(statement.body)
                found.inside[name].unknown = bool(statement.bases)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.inside[name] = Definition()
            case ast.Import() | ast.ImportFrom():
                for one in statement.names:
                    found.inside[one.asname or one.name.partition(".")[0]] = Definition(unknown=True)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                for node in (node for target in targets for node in ast.walk(target)):
                    if isinstance(node, ast.Name):
                        found.inside[node.id] = Definition(unknown=True)
            case ast.If() | ast.Try() | ast.With() | ast.For():
                for inner in (statement.body, getattr(statement, "orelse", [])):
                    found.inside |= _block(inner).inside
            case _:
                pass
    return found
