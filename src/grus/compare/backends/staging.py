"""The folder that a driver keeps for a comparison, and what a run leaves in one.

    BASE/KEY/bundle/          the bundle: code/, sampler.py
    BASE/KEY/orders/RUN.json  what the sampler reads
    BASE/KEY/runs/RUN/        what it writes

KEY follows from the comparison's own bundle and the environment's label, so a comparison that is taken up
again finds what its first attempt left, and takes it away. Names are ours: no user's string becomes a path.
"""

import hashlib
import json
import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from grus.compare.environments import OUTPUT, RECORD, CollectedFiles, DriverFailed, Environment, Order

MOST_OUTPUT = 64 << 10
"""Bytes of what the workload printed that are brought home: the last ones."""
USUAL = ".grus-comparisons"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")


def key(environment: Environment, bundle: Path) -> str:
    """Twelve letters that stand for this comparison in this environment."""
    return hashlib.sha256(f"{bundle.resolve()}\0{environment.label}".encode()).hexdigest()[:12]


def usual_base() -> Path:
    """Return the default base: in the home folder, which the nodes of a cluster share as a rule; GRUS_SHARED
    names another.
    """
    given = os.environ.get("GRUS_SHARED")
    return Path(given) if given else Path.home() / USUAL


@dataclass(frozen=True, slots=True)
class StagingFolder:
    """The folder of one comparison in one environment."""

    folder: Path

    @property
    def bundle(self) -> Path:
        return self.folder / "bundle"

    def set_up(self, bundle: Path) -> None:
        """A fresh copy of the bundle; what an earlier attempt left is gone."""
        self.remove()
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            # New and private: a run executes its content, and orders hold the job's variables.
            self.folder.mkdir(mode=0o700)
            for part in ("orders", "runs"):
                (self.folder / part).mkdir()
            shutil.copytree(bundle, self.bundle, symlinks=True)
        except OSError as why:
            text = f"{self.folder} cannot be written: {why}; name another shared folder with GRUS_SHARED"
            raise DriverFailed(text) from why

    def order(self, name: str, text: str) -> Path:
        """Write down what a run reads. Its own folder is empty from now on."""
        shutil.rmtree(self.run(name), ignore_errors=True)
        file = self.folder / "orders" / f"{checked(name)}.json"
        try:
            self.run(name).mkdir(parents=True)
            file.write_text(text)
        except OSError as why:
            raise DriverFailed(f"{file} cannot be written: {why}; see to the folder, then go on") from why
        return file

    def run(self, name: str) -> Path:
        return self.folder / "runs" / checked(name)

    def collected(self, order: Order) -> CollectedFiles:
        place = self.run(order.name)
        return CollectedFiles(record=_text(place / RECORD), output=_tail(place / OUTPUT, MOST_OUTPUT))

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.folder.parent.name == USUAL:
            with suppress(OSError):  # another comparison is still in it
                self.folder.parent.rmdir()


def checked(name: str) -> str:
    """A name that may be part of a path, of a pod's name and of a job's."""
    if not _NAME.fullmatch(name):
        raise DriverFailed(f"{name!r} is no name of a run: letters, digits, - and _ only")
    return name


def short(name: str) -> str:
    """Eight letters for a run whose own name will not do: pods and jobs take fewer letters, small ones."""
    return hashlib.sha256(checked(name).encode()).hexdigest()[:8]


def ended(record: str) -> bool:
    """Return whether the sampler recorded the workload's end."""
    lines = record.rstrip("\n").rsplit("\n", 1)
    try:
        found = json.loads(lines[-1])
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("kind") == "end"


def span(earlier: float | None, later: float | None) -> float | None:
    """Seconds between two moments; None where one is missing or the clocks contradict each other."""
    if earlier is None or later is None or later < earlier:
        return None
    return later - earlier


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def _tail(file: Path, most: int) -> str:
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - most))
            return stream.read().decode(errors="replace")
    except OSError:
        return ""
