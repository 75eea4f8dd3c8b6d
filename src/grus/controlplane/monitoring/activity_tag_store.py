"""Tags of jobs and GPUs in the store: written on change only, with time and expiry, removed when no longer
true.

Tags are computed every second; most of the time nothing has changed. A tag in the store is valid for minutes,
so that it need not be renewed every few seconds, and expires soon if no process is left to remove it. `keep`
belongs to one thread and never blocks: while a write is under way, changes are collected.
"""

import logging
import re
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import replace

from grus.controlplane.monitoring.telemetry_collector import DetectedWorkloads, Watching
from grus.model.activity_labels import Tag, of_gpu, of_job
from grus.model.errors import GrusError
from grus.model.interfaces import Store
from grus.model.jobs import Job

log = logging.getLogger(__name__)

LASTING = 600.0
"""Seconds for which a tag in the store is valid; it is renewed when half of them are over."""
PAUSE = 3.0
"""Seconds between two writes of the same tag, unless its kind changes: stages come and go within an epoch."""
NEWS = 0.05
"""Part by which a period or a peak must differ to be worth a write."""
USE_NEWS = 0.1
_FIGURES = re.compile(r"[0-9.,]+")


class TagKeeper:
    """Tag store; one per server. Reading is for any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._kept = store.tags()
        self._written: dict[str, float] = {}
        """Time of this server's last write of each tag."""
        self._under_way: tuple[Future[None], dict[str, Tag | None]] | None = None

    def keep(self, tags: Mapping[str, Tag], present: Collection[str], now: float) -> None:
        """Keep all tags that are true now, by key; with the keys of all subjects that could have one."""
        if not self._settled(now):
            return
        changes = {**self._gone(tags, present, now), **self._news(tags, now)}
        if changes:
            self._under_way = self._store.put_tags(changes), changes

    def watch(self, watching: Watching, jobs: Callable[[], Collection[Job]]) -> None:
        """Keep the tags of this watcher from now on; `jobs` are those that hold GPUs."""
        watching.subscribe(lambda seen, now: self.keep(by_key(seen), keys_of(jobs()), now))

    def tags(self, now: float) -> dict[str, Tag]:
        """Return the tags that are in the store and true."""
        with self._lock:
            return {key: tag for key, tag in self._kept.items() if tag.live(now)}

    def _settled(self, now: float) -> bool:
        """Return whether no write is under way any more; what is durable now is shown from now on."""
        if self._under_way is None:
            return True
        future, changes = self._under_way
        if not future.done():
            return False
        self._under_way = None
        try:
            future.result()
        except GrusError as error:
            log.error("tags could not be kept; tried again: %s", error)
            return True
        with self._lock:
            together = {**self._kept, **changes}
            self._kept = {key: tag for key, tag in together.items() if tag is not None}
        self._written = {key: at for key, at in self._written.items() if key in self._kept}
        self._written |= dict.fromkeys((key for key, tag in changes.items() if tag is not None), now)
        return True

    def _news(self, tags: Mapping[str, Tag], now: float) -> dict[str, Tag]:
        found = {}
        for key, tag in tags.items():
            before = self._kept.get(key)
            if before is None or tag.kind is not before.kind or before.expires - now < LASTING / 2:
                worth = True
            else:
                worth = differ(before, tag) and now - self._written.get(key, 0.0) >= PAUSE
            if worth:
                found[key] = replace(tag, expires=now + LASTING)
        return found

    def _gone(self, tags: Mapping[str, Tag], present: Collection[str], now: float) -> dict[str, None]:
        """Return tags to remove. Those of an earlier server stay until this one has newer data, or their
        subject is gone.
        """
        return {
            key: None
            for key, tag in self._kept.items()
            if key not in tags and (key in self._written or key not in present or not tag.live(now))
        }


def differ(before: Tag, after: Tag) -> bool:
    """Return whether the difference matters to users or programs; numbers inside a note do not count."""
    return (
        before.kind is not after.kind
        or before.stage is not after.stage
        or (before.hung_since is None) != (after.hung_since is None)
        or _apart(before.period, after.period, NEWS)
        or _apart(before.peak_memory, after.peak_memory, NEWS)
        or (before.utilisation is None) != (after.utilisation is None)
        or abs((before.utilisation or 0.0) - (after.utilisation or 0.0)) > USE_NEWS
        or _FIGURES.sub("", before.note) != _FIGURES.sub("", after.note)
    )


def _apart(before: float | None, after: float | None, part: float) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after - before) > part * max(abs(before), abs(after))


def by_key(recognised: DetectedWorkloads) -> dict[str, Tag]:
    """Tags of jobs and of whole GPUs, by their keys in the store."""
    gpus = {
        of_gpu(subject.device): tag
        for subject, tag in recognised.subjects.items()
        if subject.device is not None and not subject.instance
    }
    return gpus | {of_job(job): tag for job, tag in recognised.jobs.items()}


def keys_of(jobs: Collection[Job]) -> set[str]:
    """Return the keys of jobs that hold GPUs, and of the GPUs that they hold."""
    devices = {device for job in jobs for seat in job.seats for device in seat.devices}
    return {of_job(job.id) for job in jobs} | {of_gpu(device) for device in devices}
