"""What must hold of a folder after a loss of power, given what was said before it (`power_work`)."""

import hashlib
import logging
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from grus.engines.local import processes
from grus.model.errors import GrusError, NotFound
from grus.model.identifiers import JobId
from grus.model.interfaces import RESULTS, TOKENS, Event, WorkerState
from grus.model.jobs import Job
from grus.store.sqlite import SqliteStore
from tests.artifacts.builders import contents
from tests.store.builders import a_job, an_event, done
from tests.trust.power_work import DATABASE, a_tree, a_worker, digest, event_of

Words = Sequence[dict[str, Any]]
REPEATED = 60
"""Keys that are posted again, at most: the last ones."""


@dataclass(slots=True)
class Findings:
    """What is wrong, as sentences; `held` counts the promises that were looked into."""

    held: int = 0
    lost: list[str] = field(default_factory=list)
    """Confirmed, and gone or older."""
    half: list[str] = field(default_factory=list)
    """There, but never written like that."""
    corrupt: list[str] = field(default_factory=list)
    """Cannot be used as it is."""

    @property
    def all(self) -> list[str]:
        return self.lost + self.half + self.corrupt


def store(folder: Path, words: Words) -> Findings:
    found = Findings()
    try:
        kept = SqliteStore(folder / DATABASE)
    except GrusError as error:
        found.corrupt.append(f"it does not open: {error}")
        return found
    try:
        _compare(kept, words, found)
        _repeat(kept, words, found)
    except (GrusError, sqlite3.Error) as error:
        found.corrupt.append(f"it cannot be read: {error}")
    finally:
        kept.close()
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        for check in ("integrity_check", "foreign_key_check"):
            try:
                told = connection.execute(f"PRAGMA {check}").fetchall()
            except sqlite3.Error as error:
                told = [str(error)]
            if told not in ([], [("ok",)]):
                found.corrupt.append(f"{check}: {told[:3]}")
    return found


def _compare(kept: SqliteStore, words: Words, found: Findings) -> None:
    """What is stored with what was written and what was confirmed."""
    written = {(word["will"], word["version"]): word["digest"] for word in words if "will" in word}
    jobs = {job.id: job for job in kept.jobs()}
    events = kept.events(limit=1_000_000)
    if [event.seq for event in events] != list(range(1, len(events) + 1)):
        found.half.append("the numbers of the events have gaps")
    told: dict[JobId | None, list[Event]] = defaultdict(list)
    for event in events:
        told[event.job].append(event)
    for job in jobs.values():
        if written.get((job.id, job.version)) != digest(job):
            found.half.append(f"{job.id} was never written as it is in version {job.version}")
        if not _one_event_a_version(job, told.pop(job.id, [])):
            found.half.append(f"{job.id} has version {job.version} and other events than that")
    found.half += [f"an event of {job}, which is not there" for job in told]
    for word in words:
        found.held += "will" not in word and "will_together" not in word
        if "will_together" in word:
            there_of = [id_ for id_ in word["will_together"] if id_ in jobs]
            if there_of not in ([], word["will_together"]):
                found.half.append(f"of {word['will_together']}, stored together, there are {there_of}")
        elif "done" in word:
            there = jobs.get(JobId(word["done"]))
            if there is None or there.version < word["version"]:
                found.lost.append(f"{word}, found {there.version if there else 'nothing'}")
        elif "result" in word:
            try:
                kept.get(RESULTS, JobId(word["result"]))
            except NotFound:
                found.lost.append(str(word))


def _one_event_a_version(job: Job, events: Sequence[Event]) -> bool:
    texts = [event.text for event in events]
    return texts == [f"version {version}" for version in range(1, job.version + 1)] and (
        events[-1].kind == event_of(job).kind
    )


def _repeat(kept: SqliteStore, words: Words, found: Findings) -> None:
    """A key that was confirmed gives the same job again; an epoch that was handed out is not given again."""
    keys = [(word["key"], JobId(word["done"])) for word in words if word.get("key")]
    there = {job.id: job for job in kept.jobs()}
    for key, job in keys[-REPEATED:]:
        again = a_job(f"again-{job}")
        if job in there:
            again = Job(id=again.id, spec=there[job].spec, user=again.user, submitted_at=2000.0)
        answered = done(kept.create(again, an_event(again), key=key))
        if answered.id != job:
            found.lost.append(f"{key} gives {answered.id}, not {job}")
    highest = max((word["epoch"] for word in words if "epoch" in word), default=0)
    epoch = kept.take_over()
    if epoch <= highest:
        found.lost.append(f"epoch {epoch} is given again: {highest} was handed out before")


def checkpoints(folder: Path, words: Words) -> Findings:
    """The newest whole one is loaded: not older than what was said to be saved, and as it was saved."""
    from grus.elastic.training_state.checkpoints import Checkpoints
    from tests.elastic.checkpoint_kills import right

    found = Findings(held=len(words))
    logging.getLogger("grus.elastic.training_state.checkpoints").setLevel(
        logging.CRITICAL
    )  # skips are what is expected
    saved = max((word["saved"] for word in words), default=0)
    loaded = Checkpoints(folder / "checkpoints").load()
    if loaded is not None and not right(*loaded):
        found.corrupt.append(f"step {loaded[0]} has another content than was saved")
    if (loaded[0] if loaded else 0) < saved:
        found.lost.append(f"step {saved} was saved, and {loaded and loaded[0]} is loaded")
    return found


def vault(folder: Path, words: Words) -> Findings:
    """What was kept is there, each byte of it; what was not can be brought in again."""
    from grus.artifacts.artifact_store import ArtifactStore
    from grus.artifacts.artifact_upload import keep
    from grus.artifacts.manifest import DamagedArtifact

    found = Findings(held=len(words))
    kept = ArtifactStore(folder / "vault")
    for word in words:
        try:
            for name, parts in kept.manifest(word["kept"]).parts():
                kept.chunk(name, parts)
        except NotFound as error:
            found.lost.append(str(error))
        except DamagedArtifact as error:
            found.corrupt.append(str(error))
    kept.root.mkdir(exist_ok=True)
    kept.make()
    following = max((word["tree"] for word in words), default=-1) + 1
    with tempfile.TemporaryDirectory() as elsewhere:
        tree = a_tree(Path(elsewhere), following)
        again = keep(kept, tree)
        content = b"".join(kept.chunk(*part) for part in again.parts())
        files = sorted(path for path in tree.rglob("*") if path.is_file())
    if len(content) != again.size or len(files) != 4:
        found.corrupt.append(f"tree {following} was brought in again, and is not whole")
    return found


def code(folder: Path, words: Words) -> Findings:
    """A copy under its name is what was copied."""
    found = Findings(held=len(words))
    confirmed = {word["copied"] for word in words}
    with tempfile.TemporaryDirectory() as elsewhere:
        for number in sorted(confirmed):
            if not (folder / "state" / "code" / f"tree-{number}").is_dir():
                found.lost.append(f"the code of tree {number} is gone")
        for copy in (folder / "state").glob("code/tree-*"):
            tree = a_tree(Path(elsewhere), int(copy.name.removeprefix("tree-")))
            if contents(copy) != contents(tree):
                found.corrupt.append(f"the code of {copy.name} is not what was submitted")
    return found


def first_start(folder: Path, words: Words) -> Findings:
    """Whoever was told the secret gets in with it; a server always starts, and its token is in the file."""
    from grus.server.http.session_cookies import key_in
    from grus.server.runtime.first_start import ensure_admin

    found = Findings(held=len(words))
    file, key_file = folder / "state" / "token", folder / "state" / "session.key"
    try:
        kept = SqliteStore(folder / DATABASE)
    except GrusError as error:
        found.corrupt.append(f"it does not open: {error}")
        return found
    try:
        ensure_admin(kept, file, 1.0)
        in_file = file.read_text().strip()
        digests = {token.digest for token in kept.find(TOKENS)}
        key = key_in(key_file)
    except (GrusError, OSError) as error:
        found.corrupt.append(f"no server starts: {error}")
        return found
    finally:
        kept.close()
    if hashlib.sha256(in_file.encode()).hexdigest() not in digests:
        found.lost.append("the token in the file opens nothing")
    for word in words:
        if "secret" in word and word["secret"] != in_file:
            found.lost.append("the file has another token than was told")
        if "key" in word and word["key"] != key.hex():
            found.lost.append("sessions are sealed with another key than before")
    if key == bytes(len(key)):
        found.corrupt.append("the key of sessions is all zeros")
    return found


def engine(folder: Path, words: Words) -> Findings:
    """After a restart of the machine every worker that ever ran is known, and has ended as it was told."""
    from grus.engines.local.engine import LocalEngine
    from grus.telemetry.virtual_gpus import VirtualSource

    found = Findings(held=len(words))
    (folder / "state").mkdir(exist_ok=True)
    said = folder / "said again"
    with mock.patch.object(processes, "boot_id", return_value="another boot"):
        pool = LocalEngine(folder / "state" / "engine", VirtualSource("1x4x1GB"))
        pool.open(1_000_000)
        try:
            known = {str(status.id): status for status in pool.workers()}
            for word in words:
                status = known.get(word.get("ran") or word["ended"])
                if status is None:
                    found.lost.append(f"{word}: nothing is known of it, so it would be started again")
                elif status.state is not WorkerState.ENDED or status.exit is None:
                    found.corrupt.append(f"{word}: {status}")
                elif "code" in word and word["code"] != status.exit.code:
                    found.lost.append(f"{word}: {status}")
            for name in [name for name, status in known.items() if status.state is WorkerState.ENDED][-3:]:
                pool.start(a_worker(name, said, 0))
        finally:
            pool.close()
    if said.exists():
        found.lost.append(f"a worker ran again: {said.read_text()}")
    return found


CHECKS: dict[str, Callable[[Path, Words], Findings]] = {
    "store": store,
    "store_off": store,
    "store_normal": store,
    "checkpoints": checkpoints,
    "vault": vault,
    "code": code,
    "first_start": first_start,
    "engine": engine,
}
