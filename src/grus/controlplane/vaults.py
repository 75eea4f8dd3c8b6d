"""Everybody's artefacts on this machine: one vault for each user, which belongs to whom their jobs run as.

A digest is looked up in the vault of its job's user and nowhere else, so that knowing one opens nothing. What
changes a vault, or reads more than names and sizes of it, is done by processes of its owner: this one may be
root, and what is in a vault is its owner's to change.
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

from grus.artefacts.cache import TREE, WHOLE
from grus.artefacts.vault import CACHE, Vault
from grus.controlplane import handing_on, runners, session_program
from grus.controlplane.handing_on import Stage
from grus.controlplane.runners import Runner
from grus.controlplane.settings import Settings
from grus.model.artefacts import Artefact
from grus.model.identifiers import NodeId, UserName
from grus.model.jobs import Job, Spec
from grus.model.ports import Store
from grus.store.on_disk import make_folder, sync_folder


def place_of(settings: Settings, user: UserName, unix_user: str) -> Path:
    """The folder of this user's vault: opaque, and another one if their jobs run as somebody else."""
    whom = unix_user if settings.as_submitters else ""
    return settings.artefacts / hashlib.sha256(f"{user}\0{whom}".encode()).hexdigest()[:32]


class Vaults:
    """For any thread. Makes a vault when a job of its user first needs one."""

    def __init__(self, store: Store, settings: Settings, unix_user: Callable[[UserName], str]) -> None:
        self._store = store
        self._settings = settings
        self._unix_user = unix_user
        self._lock = threading.Lock()
        self._made: set[Path] = set()
        self._runners: dict[str, Runner] = {}

    def place(self, user: UserName) -> Path:
        """Opaque, and another one if the user's jobs run as somebody else from now on."""
        return place_of(self._settings, user, self._unix_user(user))

    def stage(self, job: Job) -> Stage | None:
        """What is told to the program around the job's own, if there is one. Raises OSError, KeyError."""
        if not handing_on.hands_on(job.spec) or self._settings.containers:
            return None
        place = self._open(job.user)
        given = handing_on.given(self._store.job, job.spec)
        runner = self.runner(self._unix_user(job.user)) or runners.own()
        return Stage(runner.python, runner.source, str(place), self._settings.cache_bytes, given)

    def session(self, job: Job) -> Runner | None:
        """The interpreter and source of a session's program; None for any other job."""
        if self._settings.containers or not session_program.is_session(job.spec.run):
            return None
        return self.runner(self._unix_user(job.user)) or runners.own()

    def _open(self, user: UserName) -> Path:
        place = self.place(user)
        with self._lock:
            if place in self._made:
                return place
            passage = 0o711 if self._settings.as_submitters else 0o700
            make_folder(place)
            sync_folder(place.parent)  # whoever made it
            self._settings.artefacts.chmod(passage)
            place.chmod(0o700)
            whom = self._unix_user(user) if self._settings.as_submitters else ""
            if whom:
                with suppress(KeyError):  # no such user: the start fails, and says so
                    account = pwd.getpwnam(whom)
                    os.chown(place, account.pw_uid, account.pw_gid, follow_symlinks=False)
            self._made.add(place)
        return place

    # -------------------------------------------------------------------------------------- looking

    def holds(self, user: UserName, artefact: Artefact) -> bool:
        """Whether all of it is still there, by names and sizes; it stays for a while from now on."""
        vault = Vault(self.place(user))
        if not vault.whole(artefact.digest):
            return False
        with suppress(OSError):
            vault.used(artefact.digest)
        return True

    def has(self, user: UserName, artefact: Artefact) -> bool:
        """Quicker: whether its list of files is there; it stays for a while from now on."""
        try:
            Vault(self.place(user)).used(artefact.digest)
        except OSError:
            return False
        return True

    def nearest(self, job: Job, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        """The nodes that have most of its inputs already; none if no node has any."""
        if not job.spec.inputs:
            return ()
        found = self.near(job.user, job.spec, nodes)
        most = max(found.values(), default=0)
        return tuple(sorted(node for node, size in found.items() if size == most))

    def near(self, user: UserName, spec: Spec, nodes: Iterable[NodeId]) -> dict[NodeId, int]:
        """Bytes of a job's inputs that each of these nodes has in its cache already; those with none are left
        out."""
        cache = self.place(user) / CACHE
        inputs = [one.artefact for one in handing_on.given(self._store.job, spec) if one.artefact]
        found = {
            node: sum(
                one.size for one in inputs if _is_there(cache / handing_on.cache_name(node) / one.digest)
            )
            for node in nodes
        }
        return {node: size for node, size in found.items() if size}

    # ---------------------------------------------------------------------- by processes of the owner

    def archive(self, user: UserName, artefact: Artefact, offset: int) -> "subprocess.Popen[bytes]":
        """One that writes the artefact as a tar, from this byte on, to its stdout."""
        place = self.place(user)
        return subprocess.Popen(
            self._runner_of(place).module("grus.artefacts.archive", str(place), artefact.digest, str(offset)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **self._as_owner(place),
        )

    def sweeper(self, place: Path) -> "subprocess.Popen[str]":
        """One that sweeps a vault as its stdin says."""
        return subprocess.Popen(
            self._runner_of(place).module("grus.artefacts.sweeping", str(place)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **self._as_owner(place),
        )

    def runner(self, unix_user: str) -> Runner | None:
        """What processes of this Unix user ("" for the server's own) are started with; None if nothing would
        do. Slow the first time."""
        if not unix_user or not self._settings.as_submitters:
            return runners.own()
        with self._lock:
            known = self._runners.get(unix_user)
        if known is None:
            with suppress(KeyError):  # no such user: their jobs cannot start, and say so
                known = runners.for_user(unix_user, self._settings.state)
        if known is not None:
            with self._lock:
                self._runners[unix_user] = known
        return known

    def _runner_of(self, place: Path) -> Runner:
        owner = place.lstat().st_uid
        name = pwd.getpwuid(owner).pw_name if owner != os.geteuid() else ""
        return self.runner(name) or runners.own()

    def _as_owner(self, place: Path) -> dict[str, Any]:
        common: dict[str, Any] = {"env": {}, "cwd": "/", "start_new_session": True}
        if not self._settings.as_submitters:
            return common
        owner = place.lstat()
        return {**common, "user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}


def _is_there(entry: Path) -> bool:
    return (entry / WHOLE).exists() and (entry / TREE).is_dir()
