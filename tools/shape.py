"""Print the shape of the code: size, imports between packages, large folders, names, docstrings, handlers.

    python -m tools.shape [SRC]

`make check` enforces what is a rule (tests/house/test_shape.py): large folders, class names, docstrings.
The rest is for a reader to judge.
"""

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "grus"
MOST_MODULES = 25
"""Modules in one folder; more need packages."""
MOST_DEFINITIONS = 2
"""Modules that may define classes of one name, so that a search for the name finds few places."""
QUESTIONS = frozenset({"What", "Who", "Whose", "Whom", "Which", "How", "Where", "Whether", "Of", "By"})
"""First words of docstrings that do not name the thing they define."""
LISTED = 10

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Module:
    """One file with its syntax tree; `path` is relative to the source folder."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        return self.path.parts[0] if len(self.path.parts) > 1 else "(top)"


def modules(src: Path = SRC) -> list[Module]:
    """Return all modules below the folder, in the order of their paths."""
    texts = ((path, path.read_text(encoding="utf-8")) for path in sorted(src.rglob("*.py")))
    return [Module(path.relative_to(src), text, ast.parse(text)) for path, text in texts]


def code_lines(module: Module) -> int:
    """Count the lines that are not blank, comment or docstring."""
    texts: set[int] = set()
    for node, _ in docstrings(module):
        texts.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = [line.strip() for n, line in enumerate(module.text.splitlines(), 1) if n not in texts]
    return sum(bool(line) and not line.startswith("#") for line in lines)


def large_folders(found: Sequence[Module]) -> dict[str, int]:
    """Count modules by folder, for folders with too many."""
    counts = Counter(str(one.path.parent) for one in found if one.path.name != "__init__.py")
    return {folder: count for folder, count in counts.most_common() if count > MOST_MODULES}


def repeated_classes(found: Sequence[Module]) -> dict[str, list[str]]:
    """List the modules of each class name that too many define; a leading underscore does not count."""
    places: dict[str, set[str]] = defaultdict(set)
    for one in found:
        for node in ast.walk(one.tree):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].add(str(one.path))
    ordered = sorted(places.items(), key=lambda item: (-len(item[1]), item[0]))
    return {name: sorted(paths) for name, paths in ordered if len(paths) > MOST_DEFINITIONS}


def questions(found: Sequence[Module]) -> list[str]:
    """List docstrings, of attributes too, that open with a question word."""
    return [
        f"{one.path}:{node.lineno}: {text.split(maxsplit=1)[0]}"
        for one in found
        for node, text in docstrings(one)
        if text.split(maxsplit=1)[0].rstrip(",:;") in QUESTIONS
    ]


def docstrings(module: Module) -> Iterator[tuple[ast.Expr, str]]:
    """Yield every string that stands alone as a statement, and its text; empty ones are left out."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str) and text.strip():
                yield node, text


def broad_handlers(found: Sequence[Module]) -> list[str]:
    """List handlers of all exceptions that do not raise again."""
    return [
        f"{one.path}:{node.lineno}"
        for one in found
        for node in ast.walk(one.tree)
        if isinstance(node, ast.ExceptHandler) and _is_broad(node)
    ]


def _is_broad(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {getattr(kind, "id", None) for kind in kinds}
    catches_all = handler.type is None or bool(names & {"Exception", "BaseException"})
    return catches_all and not any(isinstance(node, ast.Raise) for node in ast.walk(handler))


def function_lengths(found: Sequence[Module]) -> list[tuple[int, str]]:
    """Return the lines of every function without its docstring, longest first."""
    lengths = [
        (_length(node), f"{one.path}:{node.lineno} {node.name}")
        for one in found
        for node in ast.walk(one.tree)
        if isinstance(node, Function)
    ]
    return sorted(lengths, reverse=True)


def _length(node: Function) -> int:
    text = ast.get_docstring(node) or ""
    return (node.end_lineno or node.lineno) - node.lineno + 1 - len(text.splitlines())


def imports(found: Sequence[Module]) -> dict[str, Counter[str]]:
    """Count imports from each package to others."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in found:
        for node in ast.walk(one.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("grus."):
                counts[one.package][str(node.module).split(".")[1]] += 1
    return counts


def _spread(values: Sequence[int]) -> str:
    return f"median {percentile(values, 0.5)}, p95 {percentile(values, 0.95)}, most {max(values)}"


def percentile(values: Sequence[int], part: float) -> int:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0


def report(found: Sequence[Module]) -> Iterator[str]:
    """Yield the lines of the report."""
    files = [one.text.count("\n") for one in found]
    functions = function_lengths(found)
    lengths = [length for length, _ in functions]
    yield f"{len(found)} files, {sum(files)} lines, {sum(map(code_lines, found))} of them code"
    yield f"lines of a file: {_spread(files)}"
    yield f"lines of a function: {_spread(lengths)}"
    yield from _packages(found)
    yield f"folders with more than {MOST_MODULES} modules: {_counts(large_folders(found)) or 'none'}"
    names = {name: len(paths) for name, paths in repeated_classes(found).items()}
    yield f"class names in more than {MOST_DEFINITIONS} modules: {len(names)} {_counts(names)}".rstrip()
    yield f"docstrings that open with a question word: {len(questions(found))}"
    broad = broad_handlers(found)
    yield f"broad handlers that do not raise again: {len(broad)} {', '.join(broad[:LISTED])}"
    yield "longest functions: " + "; ".join(f"{where} {length}" for length, where in functions[:LISTED])


def _packages(found: Sequence[Module]) -> Iterator[str]:
    counts = imports(found)
    for package in sorted({one.package for one in found}):
        mine = [one for one in found if one.package == package]
        others = {name: count for name, count in counts[package].items() if name != package}
        lines = sum(one.text.count("\n") for one in mine)
        yield f"  {package:14} {len(mine):3} files {lines:6} lines -> {_counts(dict(sorted(others.items())))}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


if __name__ == "__main__":
    for row in report(modules(Path(sys.argv[1]) if len(sys.argv) > 1 else SRC)):
        print(row)
