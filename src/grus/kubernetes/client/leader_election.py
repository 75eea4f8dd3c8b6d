"""Leader election: of several controllers, the one that holds a Lease acts.

The holder renews it. A controller that sees it unrenewed for its whole duration, by its own clock, may take
it. Every change of holder raises the leader term (`epoch`), a counter in the Lease, written in the same step
as the holder. A leader is valid while its last renewal is so recent that no other controller can have taken
the Lease. The clock for that continues while the machine or the process is stopped, so a process that wakes
up finds itself invalid before it can write.

A leader that cannot renew (the API server is away) is invalid, but keeps trying: if the Lease is still its
own afterwards, no other controller has led meanwhile, and it is valid again. It has lost the leadership once
another controller has the Lease.
"""

import datetime
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from grus.kubernetes.client.api import Api, Object
from grus.kubernetes.client.errors import Conflicts, Exists, Missing, Refused, Unreachable
from grus.kubernetes.client.resource_kinds import LEASES
from grus.kubernetes.names import EPOCH

log = logging.getLogger(__name__)

MARGIN = 0.2
"""Share of the Lease's duration, before its end, for which a leader already counts as invalid."""
LOOK = 1.0
"""Seconds between two reads of a Lease that another controller holds."""
_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_time() -> float:
    """Return seconds of a clock that continues while the machine sleeps, and never jumps."""
    return time.clock_gettime(_BOOT)


@dataclass(frozen=True, slots=True)
class LeaseObservation:
    """A state of the Lease, and when (by the own clock) it was first seen."""

    spec: Object
    epoch: int
    since: float


NOTHING = LeaseObservation({}, 0, 0.0)
"""State before the first read."""


def sighted(lease: Object, before: LeaseObservation, now: float) -> LeaseObservation:
    same = before.spec == lease["spec"]
    return before if same else LeaseObservation(lease["spec"], epoch_of(lease), now)


def may_take(sight: LeaseObservation, me: str, now: float) -> bool:
    """Return whether the Lease has no holder, is our own, or was not renewed by its holder in time."""
    holder = sight.spec.get("holderIdentity") or ""
    return holder in ("", me) or now - sight.since > sight.spec.get("leaseDurationSeconds", 0)


def epoch_of(lease: Object) -> int:
    told = (lease["metadata"].get("annotations") or {}).get(EPOCH, "0")
    return int(told) if told.isdecimal() else 0


def holder_of(lease: Object) -> str:
    return lease["spec"].get("holderIdentity") or ""


def claimed(lease: Object, me: str, duration: int, when: str) -> Object:
    """The Lease as ours, with the next epoch."""
    annotations = {**(lease["metadata"].get("annotations") or {}), EPOCH: str(epoch_of(lease) + 1)}
    before = lease.get("spec") or {}
    spec = {
        "holderIdentity": me,
        "leaseDurationSeconds": duration,
        "acquireTime": when,
        "renewTime": when,
        "leaseTransitions": before.get("leaseTransitions", 0) + 1,
    }
    return {"metadata": {**lease["metadata"], "annotations": annotations}, "spec": spec}


def renewed(lease: Object, when: str) -> Object:
    return {**lease, "spec": {**lease["spec"], "renewTime": when}}


def released(lease: Object, when: str) -> Object:
    """Return the Lease without a holder, so that the next controller need not wait."""
    return {
        **lease,
        "spec": {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": when},
    }


class Leadership:
    """One candidate. `acquire` waits for the Lease; then a thread renews it until it is released or lost."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str = "grus-controller",
        me: str = "",
        *,
        duration: int = 15,
        renew: float = 5.0,
        on_lost: Callable[[], None] | None = None,
        clock: Callable[[], float] = boot_time,
    ) -> None:
        """`me` must be another one in every process; by default it is."""
        self._api = api.patient(0, answer=min(renew, 0.4 * duration))
        self._namespace, self._name = namespace, name
        self.me = me or f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"
        self._duration, self._renew = duration, renew
        self._on_lost = on_lost
        self._clock = clock
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._lease: Object | None = None
        """Lease as last written by this controller; None while it does not hold it."""
        self._renewed = 0.0
        self._thread: threading.Thread | None = None

    @property
    def epoch(self) -> int:
        """Term of this leader; 0 for none."""
        lease = self._lease
        return 0 if lease is None else epoch_of(lease)

    def valid(self) -> bool:
        """True if no other controller can have taken the Lease."""
        return self._lease is not None and self._clock() - self._renewed < self._duration * (1 - MARGIN)

    def acquire(self) -> int:
        """Waits until the Lease is ours, and returns the epoch; 0 once `release` was called."""
        sight = NOTHING
        while not self._stop.is_set():
            try:
                sight, lease = self._try(sight)
            except (Refused, Unreachable) as why:
                log.warning("cannot stand for leader: %s", why)
                lease = None
            if lease is not None:
                return self._lead(lease)
            self._stop.wait(LOOK)
        return 0

    def release(self) -> None:
        """Release the Lease, so that another can lead at once; also ends a waiting `acquire`."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        with self._lock:
            lease, self._lease = self._lease, None
        if lease is None:
            return
        try:
            self._api.replace(LEASES, released(lease, _now()))
        except (Refused, Unreachable) as why:  # the next one waits until it runs out
            log.info("the lease was not handed back: %s", why)

    def _try(self, sight: LeaseObservation) -> tuple[LeaseObservation, Object | None]:
        """Return the observed state of the Lease, and the Lease itself if this controller got it."""
        try:
            lease = self._api.get(LEASES, self._name, self._namespace)
            sight = sighted(lease, sight, self._clock())
        except Missing:  # if it was deleted, its holder may continue for as long as it lasts
            metadata = {"name": self._name, "namespace": self._namespace}
            lease = {"metadata": {**metadata, "annotations": {EPOCH: str(sight.epoch)}}}
        started = self._clock()
        if not may_take(sight, self.me, started):
            return sight, None
        return sight, self._write(claimed(lease, self.me, self._duration, _now()), started)

    def _write(self, lease: Object, started: float) -> Object | None:
        """Write the Lease; None if another controller was faster.

        The duration counts from before the request for this controller, and from after it for others.
        """
        new = "resourceVersion" not in lease["metadata"]
        try:
            written = self._api.create(LEASES, lease) if new else self._api.replace(LEASES, lease)
        except (Conflicts, Exists):
            return None
        with self._lock:
            self._renewed = started
            self._lease = written
        return written

    def _lead(self, lease: Object) -> int:
        self._thread = threading.Thread(target=self._keep, name="leadership", daemon=True)
        self._thread.start()
        log.info("leading as %s, epoch %d", self.me, epoch_of(lease))
        return epoch_of(lease)

    def _keep(self) -> None:
        """Renews until released or lost."""
        pause = self._renew
        while not self._stop.wait(pause):
            try:
                if not self._renew_once():
                    break
                pause = self._renew
            except (Refused, Unreachable) as why:
                log.warning("the lease was not renewed: %s", why)
                pause = min(LOOK, self._renew)
        else:
            return
        with self._lock:
            self._lease = None
        log.warning("%s leads no more: somebody else does", self.me)
        if self._on_lost is not None:
            self._on_lost()

    def _renew_once(self) -> bool:
        """Renew the Lease once; return whether this controller still holds it."""
        lease = self._lease
        assert lease is not None, "only a leader renews"
        if self._write(renewed(lease, _now()), self._clock()) is not None:
            return True
        return self._renew_changed(lease)

    def _renew_changed(self, mine: Object) -> bool:
        """Renew after another writer has changed the Lease, or an own write has succeeded unnoticed."""
        started = self._clock()
        try:
            lease = self._api.get(LEASES, self._name, self._namespace)
        except Missing:  # deleted while held: write it again, with the term, unless another is faster
            kept = {key: mine["metadata"][key] for key in ("name", "namespace", "annotations")}
            lease = {**mine, "metadata": kept}
        if (holder_of(lease), epoch_of(lease)) != (self.me, epoch_of(mine)):
            return False
        if self._write(renewed(lease, _now()), started) is None:  # changed again: no decision yet
            raise Conflicts(409, "Conflict", "somebody else writes the lease at the same time")
        return True


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
