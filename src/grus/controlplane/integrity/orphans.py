"""Leftovers: check that the files beside the record agree with it. Finds logs, code copies and workers of
unknown jobs, and recorded artifacts that the artifact store has lost.

Folders are listed first and the record is read afterwards: every folder listed then has been recorded before.
Read-only; only `remove` deletes, and only files that no user can request any more.
"""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from grus.artifacts.artifact_store import ArtifactStore
from grus.artifacts.manifest import DamagedArtifact
from grus.controlplane.artifacts.stores import place_of
from grus.controlplane.security import rbac
from grus.controlplane.settings import Settings
from grus.engines.local import state_files
from grus.model.artifacts import Artifact, Input
from grus.model.errors import NotFound
from grus.model.identifiers import JobId, UserName
from grus.model.integrity_findings import Finding
from grus.model.interfaces import User
from grus.model.jobs import Job

YOUNG = 3600.0
"""Seconds for which a code copy may be without its job, which is stored after it."""
REMOVE = "`grus fsck --repair` removes them, when no server runs"


class Leftovers:
    """Made before the record is read; then takes in users and jobs."""

    def __init__(self, settings: Settings, now: float) -> None:
        self._settings = settings
        self._now = now
        engine = settings.state / "engine"
        self._logs = _listed(engine / state_files.LOGS)
        self._workers = _listed(engine / state_files.WORKERS)
        self._code = [folder for folder in _listed(settings.code) if _age(folder, now) > YOUNG]
        self._jobs: set[JobId] = set()
        self._used: set[Path] = set()
        self._users: dict[UserName, User] = {}
        self._kept: dict[tuple[JobId, str], tuple[UserName, Artifact]] = {}
        self._recent: set[tuple[JobId, str]] = set()
        self._wanted: list[tuple[Job, Input]] = []

    def take_user(self, user: User) -> None:
        self._users[user.name] = user

    def take_job(self, job: Job) -> None:
        self._jobs.add(job.id)
        if job.spec.snapshot:
            self._used.add(Path(job.spec.workdir))
        for artefact in job.artefacts:
            self._kept[job.id, artefact.name] = (job.user, artefact)
            if job.ended_at is not None and job.ended_at > self._now - self._settings.artefact_retention:
                self._recent.add((job.id, artefact.name))
        if not job.terminal:
            self._wanted += [(job, one) for one in job.spec.inputs]

    def over(self, *, read_all: bool) -> list[Finding]:
        """Return the findings; `read_all` reads every byte of the artifacts, not only names and sizes."""
        return [*self._orphans(), *self._lost_workers(), *self._artefacts(read_all)]

    def remove(self) -> list[Path]:
        """Delete logs and code copies without a job; only while no server runs. Returns the deleted ones."""
        gone = [*self._orphaned_logs(), *self._orphaned_code()]
        for folder in gone:
            shutil.rmtree(folder, ignore_errors=True)
        return gone

    def _orphaned_logs(self) -> list[Path]:
        return [folder for folder in self._logs if folder.name not in self._jobs and folder.exists()]

    def _orphaned_code(self) -> list[Path]:
        return [folder for folder in self._code if folder not in self._used and folder.exists()]

    def _orphans(self) -> Iterator[Finding]:
        for folder in self._orphaned_logs():
            yield _finding("logs", folder, "logs of a job that is not on record", REMOVE)
        for folder in self._orphaned_code():
            yield _finding("code", folder, "a copy of code that no job on record uses", REMOVE)

    def _lost_workers(self) -> Iterator[Finding]:
        for folder in self._workers:
            job = folder.name.partition(".")[0]
            if job not in self._jobs and folder.exists():
                text = f"a worker of job {job}, which is not on record"
                yield _finding(
                    "workers", folder, text, "the next `grus up` ends it, if it lives, and forgets it"
                )

    def _artefacts(self, read_all: bool) -> Iterator[Finding]:
        needed: dict[tuple[JobId, str], str] = {}
        for job, one in self._wanted:
            needed[one.job, one.output] = f"{job.id} waits for it"
        for key in self._recent:
            needed.setdefault(key, "its job has ended less than [artefacts] kept ago")
        for key in sorted(needed.keys() & self._kept.keys()):
            user, artefact = self._kept[key]
            if trouble := self._trouble(user, artefact, read_all):
                fix = f"submit job {key[0]} again (`--fresh` for stages): it makes the same once more"
                text = f"output {key[1]}: {trouble} ({needed[key]})"
                yield Finding(check="artefacts", which=key[0], text=text, fix=fix)

    def _trouble(self, user: UserName, artefact: Artifact, read_all: bool) -> str:
        """Return the defect of the artifact, "" if there is none."""
        whom = rbac.unix_user(user, self._users.get(user), self._settings.as_submitters)
        vault = ArtifactStore(place_of(self._settings, user, whom))
        try:
            manifest = vault.manifest(artefact.digest)
            if not vault.whole(artefact.digest):
                return "parts of it are missing, or have another size"
            if read_all:
                for digest, parts in manifest.parts():
                    vault.chunk(digest, parts)
        except (NotFound, DamagedArtifact) as error:
            return str(error)
        return ""


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(
            entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")
        )
    except (FileNotFoundError, NotADirectoryError):
        return []


def _age(folder: Path, now: float) -> float:
    with suppress(OSError):
        return now - folder.stat().st_mtime
    return 0.0


def _finding(check: str, folder: Path, text: str, fix: str) -> Finding:
    return Finding(check=check, which=folder.name, text=text, fix=fix)
