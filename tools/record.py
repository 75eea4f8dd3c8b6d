"""Run a benchmark or a proof, show it, and keep its figures: `python tools/record.py NAME -- command…`.

The last line that the command prints is one JSON object. It is kept in docs/figures/NAME.json with the date,
the machine and the command, and the block of that NAME in docs/benchmarks.md is written anew from it.
"""

import datetime
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
FIGURES = ROOT / "docs" / "figures"


def main() -> int:
    name, dashes, *command = sys.argv[1:]
    if dashes != "--" or not command:
        print("usage: record.py NAME -- command…", file=sys.stderr)
        return 2
    last, code = run(command)
    if code != 0:
        print(f"{name}: the command ended with {code}; its figures were not kept", file=sys.stderr)
        return code
    try:
        figures = json.loads(last)
    except json.JSONDecodeError:
        print(f"{name}: the last line is not a JSON object: {last!r}", file=sys.stderr)
        return 1
    if "skipped" in figures:
        print(f"{name}: {figures['skipped']}; the figures kept before stay", file=sys.stderr)
        return 0
    keep(name, command, figures)
    return 0


def run(command: list[str]) -> tuple[str, int]:
    """Run it in the project's folder with its output passed through; its last line and exit code."""
    last = ""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    return last, process.returncode


def keep(name: str, command: list[str], figures: Mapping[str, object]) -> None:
    record = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "command": " ".join(["python" if part.endswith("/python") else part for part in command]),
        "figures": figures,
    }
    FIGURES.mkdir(exist_ok=True)
    (FIGURES / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    begin, end = f"<!-- figures {name} -->", "<!-- end -->"
    if begin not in page:
        print(f"{name}: docs/benchmarks.md has no place for it ({begin} … {end})", file=sys.stderr)
        return
    block = f"{begin}\n{table(record, figures)}\n{end}"
    page = re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _: block, page, flags=re.S)
    PAGE.write_text(page, encoding="utf-8")


def machine() -> str:
    facts = [f"{os.cpu_count()} cores", f"Linux {platform.release()}", f"Python {platform.python_version()}"]
    return ", ".join(facts)


SIDES = {"grus_": "Grus", "slurm_": "Slurm, tuned", "slurm_default_": "Slurm, default"}


def table(record: Mapping[str, object], figures: Mapping[str, object]) -> str:
    """All plain figures; those that begin with the name of a system stand side by side."""
    plain = {key: value for key, value in figures.items() if not isinstance(value, dict | list)}
    prefixes = ("grus_", "slurm_default_")
    names = sorted({key.removeprefix(side) for side in prefixes for key in plain if key.startswith(side)})
    beside = {side + name for side in SIDES for name in names}
    lines = [f"{record['date']} · {record['machine']} · `{record['command']}`", ""]
    lines += ["| figure | value |", "| --- | --- |"]
    lines += [f"| `{key}` | {shown(value)} |" for key, value in plain.items() if key not in beside]
    if names:
        lines += ["", f"| figure | {' | '.join(SIDES.values())} |", "| --- |" + " --- |" * len(SIDES)]
        lines += [
            f"| `{name}` | {' | '.join(shown(plain.get(side + name, '')) for side in SIDES)} |"
            for name in names
        ]
    return "\n".join([*lines, *_tables_of_cases(figures)])


def _tables_of_cases(figures: Mapping[str, object]) -> list[str]:
    """Figures that are given for the same cases (of each event, say) stand side by side, a case a line."""
    cases: dict[tuple[str, ...], list[str]] = {}
    for name, value in figures.items():
        if isinstance(value, dict) and value and all(isinstance(one, int | float) for one in value.values()):
            cases.setdefault(tuple(value), []).append(name)
    lines = []
    for keys, names in cases.items():
        if len(names) == 1:
            continue
        lines += ["", f"| | {' | '.join(f'`{name}`' for name in names)} |", "| --- |" + " --- |" * len(names)]
        for key in keys:
            shown_values = (shown(value[key]) for value in map(figures.get, names) if isinstance(value, dict))
            lines.append(f"| {key} | {' | '.join(shown_values)} |")
    return lines


def shown(value: object) -> str:
    return f"{value:,.4g}" if isinstance(value, float) and abs(value) < 10000 else str(value)


if __name__ == "__main__":
    sys.exit(main())
