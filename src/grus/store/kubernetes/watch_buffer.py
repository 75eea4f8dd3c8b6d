"""Cluster news: job changes received from the cluster, waiting to be copied locally; and the place of each
job.

The reflector's thread adds, the writer's thread takes. Echoes of own writes come too: if the copy has failed
to take one, it gets it this way. Taken news is kept until it is known to be in the copy.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from grus.kubernetes.api_objects.job_home import Home
from grus.kubernetes.client.api import Object
from grus.model.identifiers import JobId
from grus.store.kubernetes import job_status_codec

MOST_DELETED = 4096
"""Number of objects whose deletion is remembered: many more than writes that can be under way when one is
deleted.
"""


@dataclass(frozen=True, slots=True)
class ObjectUpdates:
    """News at one moment: the newest state of each object, by uid, and jobs whose objects are gone."""

    items: dict[str, Object] = field(default_factory=dict)
    gone: dict[JobId, None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.items or self.gone)


class News:
    """Cluster news; any thread may call."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """Set up. `wake` is called when news arrived and nothing was waiting before."""
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting = ObjectUpdates()
        self._unsettled = ObjectUpdates()
        self._homes: dict[JobId, Home] = {}
        self._let_go: set[str] = set()
        """Uids of objects removed here: later news of them is ignored."""
        self._deleted: dict[str, None] = {}
        """Uids of the last deleted objects. The answer to a write may come after the news that its object was
        deleted: it must not bring back a job about which no further message will come.
        """

    def home(self, job: JobId) -> Home | None:
        with self._lock:
            return self._homes.get(job)

    def homeless(self, jobs: Iterable[JobId]) -> list[JobId]:
        with self._lock:
            return [job for job in jobs if job not in self._homes]

    def heard(self, what: str, item: Object) -> None:
        uid = item["metadata"]["uid"]
        with self._lock:
            nothing = not self._waiting
            if what == "ADDED":  # from the watch: the cluster has it, again after a restore
                self._deleted.pop(uid, None)
            if what == "DELETED":
                self._forget(uid, item)
            elif not self._is_over(uid) and (job := job_status_codec.job_of(item)) is not None:
                if job not in self._homes:
                    self._homes[job] = job_status_codec.home(item)
                    self._is_not_gone(job)
                self._waiting.items[uid] = item
            wake = nothing and bool(self._waiting)
        if wake:
            self._wake()

    def take(self) -> ObjectUpdates:
        """Return all news not known to be in the copy."""
        with self._lock:
            self._unsettled.items.update(self._waiting.items)
            self._unsettled.gone.update(self._waiting.gone)
            self._waiting = ObjectUpdates()
            return ObjectUpdates(dict(self._unsettled.items), dict(self._unsettled.gone))

    def settled(self, taken: ObjectUpdates) -> None:
        """Record that the news is in the copy."""
        with self._lock:
            for uid, item in taken.items.items():
                if self._unsettled.items.get(uid) is item:
                    del self._unsettled.items[uid]
            for job in taken.gone:
                self._unsettled.gone.pop(job, None)

    def let_go(self, job: JobId) -> None:
        """Record that its object was removed here."""
        with self._lock:
            home = self._homes.pop(job, None)
            self._is_not_gone(job)
            if home is not None:
                self._let_go.add(home.uid)
                self._drop(home.uid)

    def _is_over(self, uid: str) -> bool:
        return uid in self._let_go or uid in self._deleted

    def _forget(self, uid: str, item: Object) -> None:
        self._let_go.discard(uid)
        self._deleted[uid] = None
        if len(self._deleted) > MOST_DELETED:
            del self._deleted[next(iter(self._deleted))]
        self._drop(uid)
        job = job_status_codec.job_of(item)
        home = self._homes.get(job) if job is not None else None
        if job is not None and home is not None and home.uid == uid:
            del self._homes[job]
            self._waiting.gone[job] = None

    def _is_not_gone(self, job: JobId) -> None:
        """Record that the job is not gone any more: it was pruned, or has another object now."""
        self._waiting.gone.pop(job, None)
        self._unsettled.gone.pop(job, None)

    def _drop(self, uid: str) -> None:
        self._waiting.items.pop(uid, None)
        self._unsettled.items.pop(uid, None)
