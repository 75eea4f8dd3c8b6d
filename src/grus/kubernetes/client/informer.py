"""Reflector: objects of one kind as the API server has them, kept up to date in memory by one thread.

The thread lists, then watches from that moment on. The server ends every watch after a while; the next
continues where it ended. A stream that breaks is resumed where it broke. If that fails, or if the server has
forgotten that moment (410), all objects are listed again and only the differences are reported. The thread
never gives up: it retries with growing pauses. The objects in memory may then be old, but were correct once:
`age` returns how long ago.
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from grus.kubernetes.client.api import Api, Object, ResourceKind, Watch, WatchEvent
from grus.kubernetes.client.errors import Gone, Refused, Unreachable
from grus.kubernetes.client.resource_kinds import Objects

log = logging.getLogger(__name__)

PERIOD = 30.0
"""Seconds after which the server ends a watch. Just before, it sends its position: that keeps `age` small."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
SHORT = 1.0
"""Seconds; a watch that ends sooner was cut on the way and does not count."""

Key = tuple[str, str]
"""Namespace (empty where there is none) and name."""
OnChange = Callable[[str, Object], None]


def key_of(item: Object) -> Key:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def version_of(item: Object) -> int:
    """Within a kind, a later write has the higher one."""
    return int(item["metadata"]["resourceVersion"])


@dataclass(slots=True)
class ObjectCache:
    """Known objects, and those reported so far. No thread, no I/O."""

    objects: dict[Key, Object] = field(default_factory=dict)
    told: dict[Key, Object] = field(default_factory=dict)
    seen: int = 0
    """Every change up to this version is known."""

    def note(self, item: Object) -> None:
        """A write's own answer, before the watch brings it; or after, when it may be deleted already."""
        key = key_of(item)
        known = self.objects.get(key)
        late = version_of(item) <= self.seen if known is None else version_of(item) <= version_of(known)
        if not late:
            self.objects[key] = item

    def apply(self, event: WatchEvent) -> list[tuple[str, Object]]:
        """Apply an event of the watch; return the changes to report because of it."""
        self.seen = max(self.seen, version_of(event.object))
        if event.type == "BOOKMARK":
            return []
        key = key_of(event.object)
        known = self.objects.get(key)
        if event.type == "DELETED":
            if known is not None and version_of(known) <= version_of(event.object):
                del self.objects[key]
            return [("DELETED", event.object)] if self.told.pop(key, None) is not None else []
        if known is None or version_of(known) < version_of(event.object):
            self.objects[key] = event.object
        return self._tell(key)

    def relist(self, found: Objects, version: str) -> list[tuple[str, Object]]:
        """Apply a full list at a version; return the changes to report because of it."""
        if int(version) < self.seen:  # the cluster's store was restored to an older state
            self.objects.clear()
        self.seen = int(version)
        there = {key_of(item): item for item in found}
        gone = {
            key: item
            for key, item in self.objects.items()
            if key not in there and version_of(item) <= self.seen
        }
        for key in gone:
            del self.objects[key]
        for key, item in there.items():
            known = self.objects.get(key)
            if known is None or version_of(known) < version_of(item):
                self.objects[key] = item
        # For an object that only its writer has noted, report both: that it was there, and that it is gone.
        noted = [item for key, item in gone.items() if key not in self.told]
        missed = [("DELETED", self.told.pop(key)) for key in list(self.told) if key not in self.objects]
        missed += [(what, item) for item in noted for what in ("ADDED", "DELETED")]
        return missed + [one for key in self.objects for one in self._tell(key)]

    def _tell(self, key: Key) -> list[tuple[str, Object]]:
        """Return the newest known state of an object as a change, unless it was reported already."""
        now, before = self.objects[key], self.told.get(key)
        if before is not None and version_of(before) == version_of(now):
            return []
        self.told[key] = now
        if before is None:
            return [("ADDED", now)]
        if before["metadata"]["uid"] != now["metadata"]["uid"]:  # another object of the same name
            return [("DELETED", before), ("ADDED", now)]
        return [("MODIFIED", now)]


class Reflector:
    """Keeps objects up to date; starts at once, and `close` ends it.

    `on_change` is called from its thread, in order for each object, with the object's newest known state: a
    change that another has overtaken is not reported. It must not take long.
    """

    def __init__(
        self,
        api: Api,
        kind: ResourceKind,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        on_change: OnChange | None = None,
        period: float = PERIOD,
    ) -> None:
        self._api = api.patient(0)  # the pauses between tries are made here, where `close` ends them
        self._kind, self._namespace, self._labels, self._fields = kind, namespace, labels, fields
        self._on_change = on_change or _nobody
        self._period = period
        self._lock = threading.Lock()
        self._shelf = ObjectCache()
        self._stop = threading.Event()
        self._watch: Watch | None = None
        self._news = time.monotonic()
        self._pause = FIRST_PAUSE
        self._relist = True
        self.lists = 0
        """Number of full lists so far."""
        self.synced = threading.Event()
        """Event that is set once the first list has arrived."""
        self._thread = threading.Thread(target=self._run, name=f"reflector-{kind.plural}", daemon=True)
        self._thread.start()

    @property
    def objects(self) -> dict[Key, Object]:
        """Known objects, for lookups; to iterate over them use `all`. They are shared: change copies only."""
        return self._shelf.objects

    def all(self) -> Objects:
        with self._lock:
            return list(self._shelf.objects.values())

    def get(self, name: str, namespace: str = "") -> Object | None:
        return self._shelf.objects.get((namespace, name))

    def note(self, item: Object) -> None:
        """Record the server's answer to a write, so that the next read finds it."""
        with self._lock:
            self._shelf.note(_lean(item))

    def wait_synced(self, timeout: float) -> bool:
        return self.synced.wait(timeout)

    def age(self) -> float:
        """Seconds since the server last sent anything: a change, or that there is none."""
        return time.monotonic() - self._news

    def close(self) -> None:
        self._stop.set()
        with self._lock:
            watch = self._watch
        if watch is not None:
            watch.close()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if self._relist:
                    self._list()
                self._follow()
            except Gone as why:
                self._relist = True
                log.info("%s are listed again: %s", self._kind.plural, why)
                self._back_off()
            except (Unreachable, Refused) as why:
                if not self._stop.is_set():
                    log.warning("%s may be out of date: %s", self._kind.plural, why)
                self._back_off()
            except Exception:  # thread boundary: the known objects must not freeze for good
                log.exception("%s may be out of date", self._kind.plural)
                self._relist = True
                self._back_off()

    def _list(self) -> None:
        found, version = self._api.list(self._kind, self._namespace, labels=self._labels, fields=self._fields)
        with self._lock:
            changes = self._shelf.relist([_lean(item) for item in found], version)
        self.lists += 1
        self._relist = False
        self._heard()
        self._tell(changes)
        self.synced.set()

    def _follow(self) -> None:
        """Follow one watch to its end. If it breaks before any event, the next turn lists again."""
        began, heard_before = time.monotonic(), self._news
        try:
            with self._open() as watch:
                for event in watch:
                    _lean(event.object)
                    with self._lock:
                        changes = self._shelf.apply(event)
                    self._heard()
                    self._tell(changes)
        except (Unreachable, Refused):
            self._relist = self._news == heard_before
            raise
        if time.monotonic() - began > SHORT:
            self._heard()
        elif not self._stop.is_set():
            self._back_off()

    def _open(self) -> Watch:
        watch = self._api.watch(
            self._kind,
            self._namespace,
            version=str(self._shelf.seen),
            labels=self._labels,
            fields=self._fields,
            timeout=self._period,
        )
        with self._lock:
            self._watch = watch
        if self._stop.is_set():  # closed meanwhile, when there was nothing to close yet
            watch.close()
        return watch

    def _heard(self) -> None:
        self._news = time.monotonic()
        self._pause = FIRST_PAUSE

    def _back_off(self) -> None:
        self._stop.wait(self._pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads callers, no secret
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _tell(self, changes: list[tuple[str, Object]]) -> None:
        for what, item in changes:
            try:
                self._on_change(what, item)
            except Exception:  # a listener's error must not stop the news for all
                log.exception("a listener of %s failed", self._kind.plural)


def _nobody(what: str, item: Object) -> None:
    """Ignore the change: the default when no listener is registered."""


def _lean(item: Object) -> Object:
    """Return the object without the record of field owners: half of its size, and of no use here."""
    item["metadata"].pop("managedFields", None)
    return item
