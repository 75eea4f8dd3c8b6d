"""Fit check: can the pool ever run a request?

It looks at a snapshot without jobs, which is rebuilt only when nodes or queues have changed. It does not
wait for the loop.
"""

import threading

from grus.controlplane.reconciler.cluster_state_cache import ClusterState
from grus.model.jobs import Spec
from grus.model.resources import Range
from grus.scheduler.placement.feasibility import above_limit, never_fits, never_fits_at
from grus.scheduler.state.snapshot import Snapshot

MOST_REMEMBERED = 1000


class FitCheck:
    """Feasibility check of requests against the pool; remembers answers until the pool changes."""

    def __init__(self, picture: ClusterState) -> None:
        self._picture = picture
        self._lock = threading.Lock()
        self._version = -1
        self._empty = Snapshot()
        self._answers: dict[object, str] = {}

    def never(self, spec: Spec) -> str:
        """Explain why it can never run here, with the nearest request that could; empty if it can."""
        key = (spec.queue, spec.request, spec.type, spec.priority, spec.node_selector, spec.affinity)
        with self._lock:
            self._refresh()
            if key not in self._answers:
                if len(self._answers) >= MOST_REMEMBERED:
                    self._answers.clear()
                self._answers[key] = never_fits(self._empty, spec)
            return self._answers[key]

    def above_limit(self, spec: Spec, limit: int) -> str:
        """Reason that a user with this limit of GPUs could never run it; "" if it could."""
        with self._lock:
            self._refresh()
            return above_limit(self._empty, spec, limit)

    def never_at(self, spec: Spec, size: Range) -> str:
        """Explain the same for an elastic job that must keep this size."""
        with self._lock:
            self._refresh()
            return never_fits_at(self._empty, spec, size)

    def _refresh(self) -> None:
        if self._version != self._picture.version:
            self._version = self._picture.version
            self._empty = Snapshot(self._picture.nodes, self._picture.queues)
            self._answers = {}
