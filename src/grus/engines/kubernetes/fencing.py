"""Fencing: permission of this engine to act; an engine that took over later must never be disturbed.

With a Leadership, that decides, which costs no call. Without one (tests, tools) the leader term is in a Lease
of the engine's own, written by compare-and-swap and read again before every engine call.
"""

from grus.kubernetes.client.api import Api
from grus.kubernetes.client.errors import Conflicts, Exists, Missing
from grus.kubernetes.client.leader_election import Leadership, epoch_of
from grus.kubernetes.client.resource_kinds import LEASES, Object
from grus.kubernetes.names import EPOCH
from grus.model.errors import Fenced, Unreachable

LEASE = "grus-engine"


class Fence:
    """Fence of one engine object."""

    def __init__(self, api: Api, namespace: str, leadership: Leadership | None) -> None:
        self._api = api
        self._namespace = namespace
        self._leadership = leadership
        self._epoch = 0

    def take(self, epoch: int) -> None:
        """Start to act under this leader term; raises Fenced if a later one has started."""
        self._epoch = epoch
        if self._leadership is not None:
            self.check()
            return
        while True:
            lease = self._lease()
            if lease is not None and epoch_of(lease) > epoch:
                raise self._fenced(epoch_of(lease))
            try:
                self._write(lease, epoch)
            except (Conflicts, Exists):  # another engine takes over at this moment: check again
                continue
            return

    def check(self) -> None:
        """Raises Fenced if another has taken over, Unreachable if that cannot be known now."""
        if self._leadership is None:
            lease = self._lease()
            if lease is not None and epoch_of(lease) > self._epoch:
                raise self._fenced(epoch_of(lease))
        elif self._leadership.epoch != self._epoch:
            raise self._fenced(self._leadership.epoch)
        elif not self._leadership.valid():
            raise Unreachable("the leadership could not be renewed; nothing is done until it is")

    def _fenced(self, epoch: int) -> Fenced:
        by = f"epoch {epoch}" if epoch else "another controller"
        return Fenced(f"{by} has taken over from epoch {self._epoch}")

    def _lease(self) -> Object | None:
        try:
            return self._api.get(LEASES, LEASE, self._namespace)
        except Missing:
            return None

    def _write(self, lease: Object | None, epoch: int) -> None:
        if lease is None:
            metadata: Object = {"name": LEASE, "annotations": {EPOCH: str(epoch)}}
            self._api.create(LEASES, {"metadata": metadata, "spec": {}}, self._namespace)
        else:
            notes = {**(lease["metadata"].get("annotations") or {}), EPOCH: str(epoch)}
            self._api.replace(LEASES, {**lease, "metadata": {**lease["metadata"], "annotations": notes}})
