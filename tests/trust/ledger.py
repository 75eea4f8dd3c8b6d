"""What long proofs have shown: a file of the project, docs/figures/trust.json, with a line for every run.

A line is written once and stays, also of a run that broke a promise: what the runs have come to together is
counted from the lines (`counting`), never kept. So ledgers of several clones and machines become one by
taking the lines of all.
"""

import datetime
import fcntl
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.trust.parts import Figures, Part
from tests.trust.sources import ROOT

LEDGER = ROOT / "docs" / "figures" / "trust.json"
OF_SEEDS = ("seed", "from", "to")
"""Names under which programs tell what stands in a run's `seeds`."""
LONGEST_WORDS = 300
"""Characters that are kept of what a run has said in words."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a part."""

    part: str
    state: str
    """Of the sources that it ran, as they were when it began."""
    date: str
    """When it was added, UTC."""
    figures: Figures = field(default_factory=dict)
    machine: str = ""
    seeds: tuple[int, int] | None = None
    """The first and the last it went through; None if they are drawn by chance."""
    note: str = ""
    """What went wrong, and, from a person's hand, what became of it."""


def made(part: Part, state: str, first: int, told: Figures) -> Run:
    """The run of which a program has just told these figures."""
    last = told.get("to")
    return Run(
        part=part.name,
        state=state,
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        figures=compact(told),
        machine=machine(),
        seeds=(first, last if isinstance(last, int) else first) if "{next}" in part.long else None,
        note=words_of(told),
    )


def compact(told: Figures) -> dict[str, object]:
    """Numbers; of a list of what went wrong its length."""
    numbers = {name: len(value) if isinstance(value, list) else value for name, value in told.items()}
    return {
        name: value
        for name, value in numbers.items()
        if isinstance(value, int | float) and name not in OF_SEEDS
    }


def words_of(told: Figures) -> str:
    """What went wrong, in the program's words: its lists, and what it calls `broken`, by seed."""
    broken = told.get("broken")
    words = [f"seed {seed}: {text}" for seed, text in broken.items()] if isinstance(broken, dict) else []
    words += [str(text) for value in told.values() if isinstance(value, list) for text in value]
    in_one_line = " ".join("; ".join(words).split())
    return in_one_line.replace(f"{ROOT}/", "")[:LONGEST_WORDS]


def machine() -> str:
    return f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"


class Ledger:
    """All runs. Several processes may add to one file at the same time."""

    def __init__(self, path: Path = LEDGER) -> None:
        self._path = path

    def runs(self, part: str | None = None) -> list[Run]:
        """Of a part, or of all, the oldest first."""
        text = self._path.read_text(encoding="utf-8") if self._path.exists() else '{"runs": []}'
        found = [_read(one) for one in json.loads(text)["runs"]]
        return sorted((run for run in found if part in (None, run.part)), key=lambda run: run.date)

    def add(self, run: Run) -> None:
        """It is there when this returns; who dies before leaves the file as it was."""
        with self._alone() as folder:
            lines = [json.dumps(_plain(one), ensure_ascii=False) for one in [*self.runs(), run]]
            draft = self._path.with_suffix(".new")
            with draft.open("w", encoding="utf-8") as file:
                file.write('{"runs": [\n' + ",\n".join(lines) + "\n]}\n")
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
            os.fsync(folder)  # the new name, too

    def next(self, part: Part) -> int:
        """The first seed after all that any run of the part went through, on whatever state."""
        return max((run.seeds[1] for run in self.runs(part.name) if run.seeds), default=0) + 1

    @contextmanager
    def _alone(self) -> Iterator[int]:
        """The lock is on the folder: one on the file would go with it when it is replaced."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield folder
        finally:
            os.close(folder)


def _read(plain: dict[str, object]) -> Run:
    seeds = plain.get("seeds")
    return Run(**{**plain, "seeds": tuple(seeds) if isinstance(seeds, list) else None})  # type: ignore[arg-type]  # as _plain wrote it


def _plain(run: Run) -> dict[str, object]:
    return {name: value for name, value in asdict(run).items() if value not in ("", None)}
