"""The fixtures of earlier versions, in `tests/fixtures/state-*`: a state, a backup, cluster objects, and a
description of what is in them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grus.kubernetes.client.resource_kinds import Object, ResourceKind
from grus.model.jobs import TERMINAL, Job, Phase
from tests.compatibility import archive

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
PATIENCE = 300.0


@dataclass(frozen=True)
class Kept:
    """The fixture of one version."""

    folder: Path

    @property
    def made(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "made.json").read_text())
        return found

    @property
    def state(self) -> Path:
        return self.folder / "state.tar.xz"

    @property
    def backup(self) -> Path:
        return self.folder / "backup.tar.xz"

    @property
    def objects(self) -> Path:
        return self.folder / "objects.json"

    def of_kind(self, kind: ResourceKind) -> list[Object]:
        """The cluster objects of that kind."""
        return [one for one in json.loads(self.objects.read_text()) if one["kind"] == kind.name]

    def unpack(self, what: Path, folder: Path) -> None:
        archive.unpack(what, folder)
        (folder / "work").mkdir(exist_ok=True)

    @property
    def phases(self) -> dict[str, Phase]:
        return {job: Phase(told["phase"]) for job, told in self.made["jobs"].items()}

    @property
    def settled(self) -> dict[str, Phase]:
        """The phases that a start of a server leaves as they are."""
        paused = {
            job
            for job, told in self.made["jobs"].items()
            if told["phase"] == Phase.PAUSED and told["paused_by"] == "person"
        }
        return {job: phase for job, phase in self.phases.items() if phase in TERMINAL or job in paused}

    def id_of(self, name: str) -> str:
        (found,) = (job for job, told in self.made["jobs"].items() if told["name"] == name)
        return str(found)


ALL = [Kept(folder) for folder in sorted(FIXTURES.glob("state-*"))]
versions = pytest.mark.parametrize("version", ALL, ids=lambda one: one.folder.name)


def described(job: Job) -> dict[str, object]:
    """A job of the cluster objects, as `made.json` has it."""
    return {
        "id": job.id,
        "phase": job.phase,
        "user": job.user,
        "queue": job.spec.queue,
        "attempt": job.attempt,
        "devices": sorted(device for seat in job.seats for device in seat.devices),
    }
