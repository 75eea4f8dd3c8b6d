"""Bugs of what is kept: the store, checkpoints, and what is let go of."""

import json
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from grus.controlplane.facade.job_actions import JobActions
from grus.elastic.training_state import checkpoint_files as files
from grus.model.errors import GrusError
from grus.model.interfaces import NewJob, PruneLimits, Store
from grus.model.jobs import TERMINAL, Job
from grus.store import sql_tables
from grus.store.kubernetes.watch_buffer import News
from grus.store.memory import MemoryStore
from grus.store.sqlite import SqliteStore
from grus.store.writer import Writer, _QueuedWrite
from tests.trust.bugs.planting import SEEDS, Bug, Swap, always, change, instead, issue

CHECKPOINTS = "tests/elastic/training_state/test_checkpoints.py"
NEWS = "tests/kubernetes/store/test_watch_events.py"
SQLITE = "tests/store/test_sqlite.py::TestSqliteStore"


def confirmed_before_commit(_: Any) -> Callable[..., None]:
    """Whoever waits hears yes when the write is in the transaction."""

    def planted(self: Writer, given: list[_QueuedWrite], *, gather: bool) -> None:
        told = False
        try:
            self._begin()
            if gather:
                given.extend(self._waiting())
            given = [
                one for one in given if one.future.running() or one.future.set_running_or_notify_cancel()
            ]
            outcomes = self._apply([one.work for one in given])
            self._confirm(given, outcomes)
            told = True
            self._connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - as the original: the edge of the thread
            self._roll_back()
            if not told:
                self._recover(given, error)

    return planted


def without_the_key(store_new: Any) -> Callable[..., Any]:
    return lambda self, user, checked: store_new(self, user, [replace(one, key=None) for one in checked])


def a_write_each(_: Any) -> Callable[..., "Future[list[Job]]"]:
    """Jobs that were submitted together are stored one after the other."""

    def planted(self: Store, new: Sequence[NewJob], epoch: int | None = None) -> "Future[list[Job]]":
        whole: Future[list[Job]] = Future()
        try:
            whole.set_result([self.create(one.job, one.event, one.key, epoch).result() for one in new])
        except GrusError as error:
            whole.set_exception(error)
        return whole

    return planted


def by_the_time_of_submit(_: Any) -> Callable[[MemoryStore, PruneLimits], int]:
    """A job is as old as its submit, whatever it does now."""

    def planted(self: MemoryStore, limits: PruneLimits) -> int:
        old = {job.id for job in self._jobs.values() if job.submitted_at < limits.jobs_before}
        gone = old.difference(limits.keep)
        self._jobs = {id_: job for id_, job in self._jobs.items() if id_ not in gone}
        self._keys = {key: id_ for key, id_ in self._keys.items() if id_ not in gone}
        kept = [event for event in self._events if event.at >= limits.events_before]
        dropped = len(self._events) - len(kept)
        self._events = kept
        return dropped + len(gone)

    return planted


SUBMITTED = f"submitted_at < ? AND 0 < ? AND 0 NOT IN ({', '.join('?' * len(TERMINAL))})"
"""In the place of the condition that looks at the end of a job, with as many places to fill."""


def straight_into_place(_: Any) -> Callable[..., Path]:
    """Written where it is found, file by file."""

    def planted(folder: Path, step: int, fill: Callable[[Any], None]) -> Path:
        target = folder / f"step-{step:012d}"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        told = files._write_state(target / files.STATE, fill)
        manifest = {"format": files.FORMAT, "step": step, "files": {files.STATE: told}}
        files._write(target / files.MANIFEST, json.dumps(manifest).encode())
        return target

    return planted


def by_its_name(_: Any) -> Callable[[Path], int]:
    """Whatever has a checkpoint's name is one."""
    return lambda checkpoint: int(checkpoint.name.removeprefix("step-"))


def one_folder_for_all(_: Any) -> Callable[[Path], Path]:
    """Every attempt writes under the same name."""
    name = f".tmp-{files._host()}-1-1-0"
    return lambda folder: folder / name


BUGS = (
    Bug(
        "early-yes",
        "a write is confirmed before it is durable",
        issue("etcd-io/etcd", 14370),
        (Swap(Writer, "_commit", confirmed_before_commit),),
        (f"{SQLITE}::test_a_listener_finds_what_it_hears_of_in_the_store",),
        everywhere=False,
    ),
    Bug(
        "key-dropped",
        "the key of a submit is not stored, so that a repeated request makes a second job",
        issue("jupyter-server/jupyter-scheduler", 72),
        (Swap(JobActions, "_store_new", without_the_key),),
        (
            SEEDS,
            "tests/controlplane/facade/test_services.py::test_a_key_makes_one_job_however_often_it_is_sent",
        ),
    ),
    Bug(
        "half-a-submission",
        "jobs that were submitted together are written one by one, so that a crash leaves some of them",
        change("conductor-oss/conductor", 145),
        (
            Swap(MemoryStore, "create_all", a_write_each),
            Swap(SqliteStore, "create_all", a_write_each),
        ),
        (
            SEEDS,
            f"{SQLITE}::test_one_that_is_refused_keeps_all_of_them_out",
        ),
    ),
    Bug(
        "retention-of-the-living",
        "a job that still runs is removed because it began long ago",
        issue("argoproj/argo-workflows", 12636),
        (
            Swap(MemoryStore, "_prune", by_the_time_of_submit),
            Swap(sql_tables, "_ENDED", instead(SUBMITTED)),
        ),
        (f"{SQLITE}::test_prune_drops_old_events_and_jobs_that_ended_before",),
        everywhere=False,
    ),
    Bug(
        "deleted-comes-back",
        "late news of a deleted object bring it back, and what it held is never free again",
        issue("kubernetes/kubernetes", 85726),
        (Swap(News, "_is_over", always(False)),),
        (f"{NEWS}::test_the_answer_to_a_write_that_comes_after_the_deletion_brings_nothing_back",),
        everywhere=False,
    ),
    Bug(
        "torn-checkpoint",
        "a checkpoint is written under its own name, and taken for whole if it has one",
        issue("Lightning-AI/pytorch-lightning", 688),
        (
            Swap(files, "place", straight_into_place),
            Swap(files, "_verify", by_its_name),
        ),
        (f"{CHECKPOINTS}::test_a_damaged_checkpoint_is_skipped_by_name_and_the_one_before_is_loaded",),
        everywhere=False,
    ),
    Bug(
        "folder-not-synced",
        "a checkpoint is renamed into place and its folder never brought to the disk",
        issue("etcd-io/etcd", 6368),
        (Swap(files, "sync", always(None)),),
        (f"{CHECKPOINTS}::test_a_checkpoint_is_told_when_its_name_is_on_the_disk",),
        everywhere=False,
    ),
    Bug(
        "shared-checkpoint",
        "two attempts write the same checkpoint into the same files",
        issue("kubernetes/kubernetes", 61832),
        (Swap(files, "_temporary", one_folder_for_all),),
        (f"{CHECKPOINTS}::test_two_workers_that_save_at_the_same_time_both_succeed",),
        everywhere=False,
    ),
)
