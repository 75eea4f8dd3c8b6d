"""Artifact stores of all users on this machine: one for each user, owned by the Unix user that runs their
jobs.

A digest is looked up only in the artifact store of its job's user, so that knowing a digest opens nothing.
Processes of the store's owner do everything that changes a store, or reads more than names and sizes of it:
this process may be root, and the content of a store is its owner's to change.
"""

import hashlib
import os
import pwd
import subprocess
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from grus.artifacts.artifact_store import CACHE, ArtifactStore
from grus.artifacts.cache import TREE, WHOLE
from grus.controlplane.settings import Settings
from grus.controlplane.workers import artifact_inputs_outputs, interpreters, session_command
from grus.controlplane.workers.artifact_inputs_outputs import StagingSetup
from grus.controlplane.workers.interpreters import Runner
from grus.model.artifacts import Artifact
from grus.model.identifiers import NodeId, UserName
from grus.model.interfaces import Store
from grus.model.jobs import Job, Spec
from grus.store.durable_files import make_folder, sync_folder


def place_of(settings: Settings, user: UserName, unix_user: str) -> Path:
    """Return the folder of this user's artifact store: opaque, and different if their jobs run as another
    Unix user.
    """
    whom = unix_user if settings.as_submitters else ""
    return settings.artefacts / hashlib.sha256(f"{user}\0{whom}".encode()).hexdigest()[:32]


class ArtifactStores:
    """Artifact stores, for any thread. Creates one when a job of its user first needs it."""

    def __init__(self, store: Store, settings: Settings, unix_user: Callable[[UserName], str]) -> None:
        self._store = store
        self._settings = settings
        self._unix_user = unix_user
        self._lock = threading.Lock()
        self._made: set[Path] = set()
        self._runners: dict[str, Runner] = {}

    def place(self, user: UserName) -> Path:
        """Return the folder: opaque, and different once the user's jobs run as another Unix user."""
        return place_of(self._settings, user, self._unix_user(user))

    def stage(self, job: Job) -> StagingSetup | None:
        """Return the arguments of the program that wraps the job's own, if there is one. Raises OSError,
        KeyError.
        """
        if not artifact_inputs_outputs.hands_on(job.spec) or self._settings.containers:
            return None
        place = self._open(job.user)
        given = artifact_inputs_outputs.given(self._store.job, job.spec)
        runner = self.runner(self._unix_user(job.user)) or interpreters.own()
        return StagingSetup(runner.python, runner.source, str(place), self._settings.cache_bytes, given)

    def session(self, job: Job) -> Runner | None:
        """Return the interpreter and source of a session's program; None for any other job."""
        if self._settings.containers or not session_command.is_session(job.spec.run):
            return None
        return self.runner(self._unix_user(job.user)) or interpreters.own()

    def _open(self, user: UserName) -> Path:
        place = self.place(user)
        with self._lock:
            if place in self._made:
                return place
            passage = 0o711 if self._settings.as_submitters else 0o700
            make_folder(place)
            sync_folder(place.parent)  # created by another thread or process
            self._settings.artefacts.chmod(passage)
            place.chmod(0o700)
            whom = self._unix_user(user) if self._settings.as_submitters else ""
            if whom:
                with suppress(KeyError):  # no such user: the start fails with an error
                    account = pwd.getpwnam(whom)
                    os.chown(place, account.pw_uid, account.pw_gid, follow_symlinks=False)
            self._made.add(place)
        return place

    # -------------------------------------------------------------------------------------- reading

    def holds(self, user: UserName, artefact: Artifact) -> bool:
        """Return whether all of it is still there, by names and sizes; it stays for a while from now on."""
        vault = ArtifactStore(self.place(user))
        if not vault.whole(artefact.digest):
            return False
        with suppress(OSError):
            vault.used(artefact.digest)
        return True

    def has(self, user: UserName, artefact: Artifact) -> bool:
        """Return whether its list of files is there (quicker than `holds`); it stays for a while from
        now on.
        """
        try:
            ArtifactStore(self.place(user)).used(artefact.digest)
        except OSError:
            return False
        return True

    def nearest(self, job: Job, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """Return the nodes that have most of its inputs already; none if no node has any."""
        if not job.spec.inputs:
            return ()
        found = self.near(job.user, job.spec, nodes)
        most = max(found.values(), default=0)
        return tuple(sorted(node for node, size in found.items() if size == most))

    def near(self, user: UserName, spec: Spec, nodes: Iterable[NodeId]) -> dict[NodeId, int]:
        """Return the bytes of a job's inputs in the cache of each of these nodes; nodes without any are left
        out.
        """
        cache = self.place(user) / CACHE
        inputs = [
            one.artefact for one in artifact_inputs_outputs.given(self._store.job, spec) if one.artefact
        ]
        found = {
            node: sum(
                one.size
                for one in inputs
                if _is_there(cache / artifact_inputs_outputs.cache_name(node) / one.digest)
            )
            for node in nodes
        }
        return {node: size for node, size in found.items() if size}

    # ---------------------------------------------------------------------- by processes of the owner

    def archive(self, user: UserName, artefact: Artifact, offset: int) -> "subprocess.Popen[bytes]":
        """Start a process that writes the artifact as a tar, from this byte on, to its stdout."""
        place = self.place(user)
        return subprocess.Popen(
            self._runner_of(place).module("grus.artifacts.archive", str(place), artefact.digest, str(offset)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **self._as_owner(place),
        )

    def sweeper(self, place: Path) -> "subprocess.Popen[str]":
        """Start a process that sweeps an artifact store as its stdin says."""
        return subprocess.Popen(
            self._runner_of(place).module("grus.artifacts.gc", str(place)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **self._as_owner(place),
        )

    def runner(self, unix_user: str) -> Runner | None:
        """Return the command prefix for processes of this Unix user ("" for the server's own); None if none
        works. Slow the first time.
        """
        if not unix_user or not self._settings.as_submitters:
            return interpreters.own()
        with self._lock:
            known = self._runners.get(unix_user)
        if known is None:
            with suppress(KeyError):  # no such user: their jobs cannot start, and say so
                known = interpreters.for_user(unix_user, self._settings.state)
        if known is not None:
            with self._lock:
                self._runners[unix_user] = known
        return known

    def _runner_of(self, place: Path) -> Runner:
        owner = place.lstat().st_uid
        name = pwd.getpwuid(owner).pw_name if owner != os.geteuid() else ""
        return self.runner(name) or interpreters.own()

    def _as_owner(self, place: Path) -> dict[str, Any]:
        common: dict[str, Any] = {"env": {}, "cwd": "/", "start_new_session": True}
        if not self._settings.as_submitters:
            return common
        owner = place.lstat()
        return {**common, "user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}


def _is_there(entry: Path) -> bool:
    return (entry / WHOLE).exists() and (entry / TREE).is_dir()
