"""What the cluster says of jobs, waiting to be taken into the local copy; and where each job lives.

The reflector's thread adds, the writer's thread takes. Echoes of own writes come too: should the copy have
failed to take one, it gets it so.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from grus.kubernetes.api import Object
from grus.kubernetes.homes import Home
from grus.model.identifiers import JobId
from grus.store.kubernetes import records


@dataclass(slots=True)
class Taken:
    """News of a moment: the newest state of each object, and jobs whose objects are gone."""

    items: dict[str, Object] = field(default_factory=dict)
    """By uid."""
    gone: list[JobId] = field(default_factory=list)


class News:
    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` is called when there is something to take and there was nothing before."""
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting = Taken()
        self._homes: dict[JobId, Home] = {}
        self._let_go: set[str] = set()
        """Uids of objects removed here: their last words are of no interest."""

    def home(self, job: JobId) -> Home | None:
        with self._lock:
            return self._homes.get(job)

    def heard(self, what: str, item: Object) -> None:
        uid = item["metadata"]["uid"]
        with self._lock:
            empty = not self._waiting.items and not self._waiting.gone
            if what == "DELETED":
                self._forget(uid, item)
            elif uid not in self._let_go and records.record_version(item):
                self._settle(item)
                self._waiting.items[uid] = item
            wake = empty and (self._waiting.items or self._waiting.gone)
        if wake:
            self._wake()

    def take(self) -> Taken:
        with self._lock:
            taken, self._waiting = self._waiting, Taken()
            return taken

    def let_go(self, home: Home) -> None:
        """It was removed here."""
        with self._lock:
            self._let_go.add(home.uid)
            self._waiting.items.pop(home.uid, None)
            self._homes = {job: where for job, where in self._homes.items() if where.uid != home.uid}

    def homeless(self, jobs: list[JobId]) -> list[JobId]:
        with self._lock:
            return [job for job in jobs if job not in self._homes]

    def _settle(self, item: Object) -> None:
        job = records.job_of(item)
        if job is not None and self._homes.get(job) is None:
            self._homes[job] = records.home(item)

    def _forget(self, uid: str, item: Object) -> None:
        self._let_go.discard(uid)
        self._waiting.items.pop(uid, None)
        job = records.job_of(item)
        home = self._homes.get(job) if job is not None else None
        if job is not None and home is not None and home.uid == uid:
            del self._homes[job]
            self._waiting.gone.append(job)
