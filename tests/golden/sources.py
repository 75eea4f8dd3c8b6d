"""Names that the sources of Grus give to others, found in their syntax trees."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grus
from grus.model.phases import BEGINS

SOURCE = Path(grus.__file__).resolve().parent
VARIABLE = re.compile(r"""["'](GRUS_[A-Z_]*[A-Z])["']|\b(GRUS_[A-Z_]*[A-Z])=""")
"""As a text, or as the name of an argument."""
MAKERS = {"change": 1, "_waits": 1, "JobTransition": 1, "Event": None}
"""Functions that make an event, each with the number of the argument that is its kind; None: `kind=`."""
OF_EVENTS = ("controlplane", "operator", "store")


@cache
def _files() -> dict[Path, str]:
    return {path.relative_to(SOURCE): path.read_text("utf-8") for path in sorted(SOURCE.rglob("*.py"))}


@cache
def _calls(path: Path) -> list[tuple[str, ast.Call]]:
    """Calls in a file, each with the last one of the function's names."""
    return [
        (node.func.id if isinstance(node.func, ast.Name) else node.func.attr, node)
        for node in ast.walk(ast.parse(_files()[path]))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
    ]


def _calls_near(word: str) -> Iterator[tuple[str, ast.Call]]:
    """Calls in the files that have this word: to parse all of them takes long."""
    return (call for path, text in _files().items() if word in text for call in _calls(path))


def _texts(node: ast.AST) -> set[str]:
    return {
        one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)
    }


def variables() -> list[str]:
    """Environment variables that Grus reads or sets."""
    return sorted({one[1] or one[2] for text in _files().values() for one in VARIABLE.finditer(text)})


def events() -> list[str]:
    """Kinds of events."""
    found = set(BEGINS)
    for path in _files():
        for name, call in _calls(path) if path.parts[0] in OF_EVENTS else ():
            if name in MAKERS:
                found = found.union(*map(_texts, _kinds(call, MAKERS[name])))
    return sorted(found - {""})


def _kinds(call: ast.Call, place: int | None) -> list[ast.expr]:
    if place is None:
        return [one.value for one in call.keywords if one.arg == "kind"]
    return call.args[place : place + 1]


def figures() -> list[str]:
    """Reported figures that mean something to Grus."""
    found: set[str] = set()
    for name, call in _calls_near("figures"):
        if name == "get" and call.args and "figures" in ast.unparse(call.func).removesuffix(".get"):
            found |= _texts(call.args[0])
    return sorted(found)


def runtime_keys() -> dict[str, list[str]]:
    """Things that runtimes say of a worker in its report, beside figures, with the keys of each."""
    found: dict[str, set[str]] = {}
    for _, call in _calls_near("worker.tell("):
        for one in call.keywords if ast.unparse(call.func) == "worker.tell" else ():
            keys = one.value.keys if isinstance(one.value, ast.Dict) else []
            texts = [_texts(key) for key in keys if key is not None]
            found.setdefault(str(one.arg), set()).update(*texts)
    return {name: sorted(keys) for name, keys in found.items()}
