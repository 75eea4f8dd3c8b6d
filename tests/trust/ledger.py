"""What long proofs have shown so far: the figures of several runs of the same code, added up in a file.

Runs of other code say nothing about this one, so the ledger of each state of the sources is its own.
"""

import fcntl
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from tests.trust.parts import Figures, Part

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "out" / "trust"
MEASURES = ("_s", "_ms", "_mb", "_per_min")
"""How names of times, sizes and slopes end."""


def digest_of_sources(root: Path = ROOT) -> str:
    """Of everything that a proof runs: the program and the tests."""
    found = hashlib.sha256()
    for path in sorted([*(root / "src").rglob("*.py"), *(root / "tests").rglob("*.[pc]*")]):
        if path.suffix in (".py", ".c"):
            found.update(str(path.relative_to(root)).encode())
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


def added(part: Part, before: Figures, now: Figures) -> dict[str, object]:
    """The figures of all runs before and of this one: counts added, times and sizes by the largest."""
    sum_: dict[str, object] = {**before, **now}
    for name in before.keys() & now.keys():
        old, new = before[name], now[name]
        if isinstance(old, dict) and isinstance(new, dict):
            sum_[name] = added(part, old, new)
        elif isinstance(old, bool) or isinstance(new, bool):
            continue
        elif isinstance(old, int | float) and isinstance(new, int | float):
            sum_[name] = max(old, new) if largest_counts(part, name) else old + new
    return sum_


def largest_counts(part: Part, name: str) -> bool:
    """Whether of several runs the largest figure is told, not their sum."""
    return name in part.most or name.endswith(MEASURES)


class Ledger:
    """Figures by part. Written whole after each run, so that a proof that is broken off loses one run.

    Several may add to one file, each runs of other parts.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def _read(self) -> dict[str, dict[str, object]]:
        return json.loads(self._path.read_text()) if self._path.exists() else {}

    def figures(self, part: str) -> Mapping[str, object]:
        return self._read().get(part, {})

    def add(self, part: Part, figures: Figures) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            whole = self._read()
            whole[part.name] = added(part, whole.get(part.name, {}), figures)
            draft = self._path.with_suffix(".new")
            draft.write_text(json.dumps(whole, indent=1, sort_keys=True))
            draft.replace(self._path)

    def next(self, part: Part) -> int:
        """A number that no run before has begun with, or gone through."""
        known = self.figures(part.name)
        end = known.get("to", known.get(part.size, 0))
        return int(end) + 1 if isinstance(end, int | float) else 1
