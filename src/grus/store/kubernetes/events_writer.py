"""Announcer: events of jobs as Kubernetes events, for `kubectl describe`; from a thread of its own, without
urgency.

They are optional. If the cluster is busy or refuses them they are dropped; the store's log has them all.
"""

import logging
import queue
import threading
import time
from contextlib import suppress

from grus.kubernetes.api_objects.job_home import Home
from grus.kubernetes.api_objects.job_status import moment
from grus.kubernetes.client.api import Api, Object
from grus.kubernetes.client.errors import Refused, Unreachable
from grus.kubernetes.client.resource_kinds import EVENTS, GPU_JOBS
from grus.model.interfaces import Event

WAITING = 1000
"""Maximum number of waiting events; further ones are dropped."""
PAUSE = 0.1
"""Seconds between two events, so that they never delay API requests of the control plane."""
WARNINGS = frozenset({"failed", "lost", "complaint", "damaged"})

log = logging.getLogger(__name__)


def announcement(home: Home, event: Event, number: int) -> Object:
    """Return the Kubernetes event for an event of a job."""
    when = moment(event.at)
    return {
        "metadata": {"name": f"{home.name}.{number:x}", "namespace": home.namespace},
        "involvedObject": {
            "apiVersion": GPU_JOBS.api_version,
            "kind": home.kind,
            "namespace": home.namespace,
            "name": home.name,
            "uid": home.uid,
        },
        "type": "Warning" if event.kind in WARNINGS else "Normal",
        "reason": "".join(word.capitalize() for word in event.kind.replace("-", " ").split()) or "Note",
        "message": event.text[:1000],
        "source": {"component": "grus"},
        "reportingComponent": "grus",
        "firstTimestamp": when,
        "lastTimestamp": when,
        "count": 1,
    }


class Announcer:
    """Sender of announcements. Any thread may call `say`; it never blocks."""

    def __init__(self, api: Api) -> None:
        self._api = api.patient(1)
        self._waiting: queue.Queue[tuple[Home, Event] | None] = queue.Queue(WAITING)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="grus-announcer", daemon=True)
        self._thread.start()

    def say(self, home: Home, event: Event) -> None:
        try:
            self._waiting.put_nowait((home, event))
        except queue.Full:
            log.debug("too many events to tell the cluster of all")

    def close(self) -> None:
        """Stop, and drop the waiting items."""
        self._stop.set()
        with suppress(queue.Full):  # then the thread is awake, and sees that it must stop
            self._waiting.put_nowait(None)
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while (given := self._waiting.get()) is not None and not self._stop.is_set():
            self._tell(*given)
            self._stop.wait(PAUSE)

    def _tell(self, home: Home, event: Event) -> None:
        try:
            self._api.create(EVENTS, announcement(home, event, time.time_ns()))
        except (Refused, Unreachable) as error:
            log.debug("the cluster was not told of an event of %s/%s: %s", home.namespace, home.name, error)
