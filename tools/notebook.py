"""Execute a notebook and keep what it shows in it: `python -m tools.notebook docs/notebooks/NAME.ipynb`.

Cells run in order in one namespace, in the notebook's folder, as Jupyter runs them: what a cell prints and
the value of its last line are kept as its outputs. Only what the notebooks here need is done; there is no
kernel and nothing to install. A cell that raises ends it, and nothing is written.
"""

import ast
import contextlib
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SHOWN = {"_repr_svg_": "image/svg+xml", "_repr_markdown_": "text/markdown", "_repr_html_": "text/html"}
"""How a value says that it has a better look than its text, and what that look is."""


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def executed(
    notebook: dict[str, Any], folder: Path, tell: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """The same notebook with the outputs that its code gives now."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    with _inside(folder):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                count += 1
                tell(f"cell {count}: {''.join(cell['source']).splitlines()[0][:80]}")
                cell = {**cell, "execution_count": count, "outputs": _run(cell, count, names)}
            cells.append(cell)
    return {**notebook, "cells": cells}


def text(notebook: dict[str, Any]) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """In the folder, whose modules can be imported; they are forgotten afterwards."""
    known = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - known:
            where = getattr(sys.modules[name], "__file__", None) or ""
            if Path(where).parent == folder:
                del sys.modules[name]


def _run(cell: dict[str, Any], count: int, names: dict[str, Any]) -> list[dict[str, Any]]:
    tree = ast.parse("".join(cell["source"]), f"<cell {count}>")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"<cell {count}>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"<cell {count}>", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if said := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(said)})
    if value is not None:
        outputs.append(
            {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": _data(value)}
        )
    return outputs


def _data(value: object) -> dict[str, list[str]]:
    found = {"text/plain": _lines(repr(value))}
    for name, kind in SHOWN.items():
        if (show := getattr(value, name, None)) is not None:
            found[kind] = _lines(show())
    return found


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python -m tools.notebook NOTEBOOK", file=sys.stderr)
        return 2
    path = Path(sys.argv[1])
    made = executed(read(path), path.resolve().parent, lambda line: print(line, flush=True))
    path.write_text(text(made), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
