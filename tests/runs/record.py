"""The record of one run of the tests, by which it and later runs find what it started.

Processes inherit its folder in the variable TEST_RUN, temporary files lie in that folder, clusters and
cgroups carry its id in their names. The record names the process whose end is the end of the run.
"""

import json
import os
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.runs import network
from tools.kubernetes.processes import Mark

VARIABLE = "TEST_RUN"


@dataclass(frozen=True, slots=True)
class Run:
    id: str
    folder: Path
    controller: Mark
    namespace: int = 0
    """Of its network, 0 if it has none of its own."""
    links: tuple[str, ...] = ()
    """Network devices that were there when it began."""

    @property
    def name(self) -> str:
        """The beginning of the names of its clusters."""
        return f"tests-{self.id}"

    @property
    def file(self) -> Path:
        return self.folder.with_suffix(".json")

    def alive(self) -> bool:
        return self.controller.alive()


def top() -> Path:
    return Path(tempfile.gettempdir(), f"grus-tests-{os.getuid()}")


def begin(top: Path) -> Run:
    """Record a run of this process, then make its folder; moves the process into a network of its own."""
    key = uuid.uuid4().hex[:8]
    namespace = network.enter_own(f"tests-{key}")
    run = Run(key, top / key, Mark.of(os.getpid()), namespace, network.links())
    top.mkdir(exist_ok=True)
    save(run)
    run.folder.mkdir()
    run.folder.chmod(0o1777)  # it stands for /tmp: programs of other users write there too
    return run


def save(run: Run) -> None:
    fresh = run.file.with_suffix(".new")
    fresh.write_text(json.dumps({**asdict(run), "folder": str(run.folder)}))
    fresh.replace(run.file)


def load(file: Path) -> Run:
    raw = json.loads(file.read_text())
    return Run(
        raw["id"], Path(raw["folder"]), Mark(**raw["controller"]), raw["namespace"], tuple(raw["links"])
    )


def dead(top: Path) -> Iterator[Run]:
    for file in sorted(top.glob("*.json")):
        run = load(file)
        if not run.alive():
            yield run
