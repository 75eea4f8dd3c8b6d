"""Notebook conversion: a script of its cells, and a job file that runs it. Pure.

Text becomes comments. Parts that only a notebook understands are left out, and named: shell lines, magics,
cells with the tag `skip`. Lines that install packages become the job's setup. The parameters of a run may
override a cell with the tag `parameters`, so that the job can be swept over.
"""

import ast
import json
import re
from dataclasses import dataclass, field

from grus.model.errors import BadInput, Mistake

INSTALL = re.compile(r"^[%!]\s*(?:python3?\s+-m\s+)?(pip3?\s+install\s+.+)$")
ONLY_HERE = re.compile(r"^\s*(?:[%!].*|\S.*\?\?|\?.*)$")
"""A line that only a notebook understands."""
SKIP, PARAMETERS = "skip", "parameters"
LONGEST_NAME = 40
CHOSEN = "globals().update(__import__('grus').params())  # what was chosen for this run"


@dataclass(frozen=True, slots=True)
class Training:
    """Result of converting a notebook."""

    files: dict[str, str]
    """Text by name."""
    left_out: tuple[str, ...]
    """Steps of the notebook that the script leaves out, in words."""


@dataclass(slots=True)
class _Draft:
    parts: list[str] = field(default_factory=list)
    setup: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)


def training(text: str, name: str, *, gpu: str = "1", queue: str = "default") -> Training:
    """The script and the job file. Raises BadInput with every cell that is no Python."""
    draft = _Draft()
    for number, cell in enumerate(_cells(text), 1):
        _take(draft, number, cell)
    if draft.mistakes:
        raise BadInput(draft.mistakes)
    slug = re.sub("[^a-z0-9]+", "_", name.lower()).strip("_")[:LONGEST_NAME] or "notebook"
    script = f"train_{slug}.py"
    head = f'"""Training from the notebook {json.dumps(name)[1:-1]}, as `grus dev --to-train` wrote it."""\n'
    files = {
        script: "\n\n".join([head, *draft.parts]).rstrip() + "\n",
        f"train_{slug}.yaml": _job_file(slug, script, gpu, queue, draft.setup),
    }
    return Training(files, tuple(draft.left_out))


def _cells(text: str) -> list[dict[str, object]]:
    try:
        found = json.loads(text)
        cells, version = found["cells"], found["nbformat"]
        language = found.get("metadata", {}).get("kernelspec", {}).get("language", "python")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadInput([Mistake("notebook", "is no notebook (.ipynb of version 4)")]) from None
    if version != 4 or not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise BadInput([Mistake("notebook", "must be of version 4 (nbformat)", str(version)[:20])])
    if language != "python":
        raise BadInput([Mistake("notebook", "must be in Python", str(language)[:40])])
    return cells


def _take(draft: _Draft, number: int, cell: dict[str, object]) -> None:
    source = cell.get("source", "")
    lines = ("".join(map(str, source)) if isinstance(source, list) else str(source)).splitlines()
    metadata = cell.get("metadata")
    tags = metadata.get("tags", []) if isinstance(metadata, dict) else []
    if not any(line.strip() for line in lines):
        return
    if cell.get("cell_type") != "code":
        draft.parts.append("\n".join(f"# {line}".rstrip() for line in lines))
    elif SKIP in tags or lines[0].startswith("%%"):
        draft.left_out.append(f"cell {number}: {lines[0] if SKIP not in tags else 'it has the tag skip'}")
    else:
        _take_code(draft, number, lines, PARAMETERS in tags)


def _take_code(draft: _Draft, number: int, lines: list[str], chosen: bool) -> None:
    kept = []
    for line in lines:
        if (install := INSTALL.match(line)) is not None:
            draft.setup.append(f"python3 -m {install[1]}")
        elif ONLY_HERE.match(line):
            draft.left_out.append(f"cell {number}: {line.strip()}")
            indent = line[: len(line) - len(line.lstrip())]
            kept.append(f"{indent}pass  # left out: {line.strip()}")
        else:
            kept.append(line)
    code = "\n".join(kept)
    try:
        ast.parse(code)
    except (SyntaxError, ValueError) as error:
        where = f" in its line {error.lineno}" if isinstance(error, SyntaxError) else ""
        draft.mistakes.append(Mistake(f"cell {number}", f"is no Python by itself: {error}{where}"[:200]))
    draft.parts.append(f"{code}\n{CHOSEN}" if chosen else code)


def _job_file(slug: str, script: str, gpu: str, queue: str, setup: list[str]) -> str:
    lines = [
        f"name: {slug.replace('_', '-')}",
        "type: train",
        f"queue: {json.dumps(queue)}",
        f"run: [python3, {script}]",
        f"resources: {{gpu: {json.dumps(gpu)}}}",
        "env: {MPLBACKEND: Agg}  # figures are drawn without a screen",
    ]
    if setup:
        lines += ["setup:", *(f"  - {json.dumps(line)}" for line in setup)]
    lines += [
        "# It may be paused and goes on by itself where the script saves to grus.checkpoint_path(), asks",
        "# grus.should_pause() between two steps, and tells how far it is with grus.report(step=…, total=…).",
    ]
    return "\n".join(lines) + "\n"
