"""Figures of the server itself, counted as it works. What can be read from the services is not kept here."""

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

from grus.scheduler.decisions import Decisions
from grus.scheduler.state.snapshot import Snapshot

disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no types here

Decide = Callable[[Snapshot, float], Decisions]
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Seconds. The aims are 0.05 for 1,000 GPUs and 0.5 for 10,000."""


class Figures:
    """One per server; a registry of its own, so that several servers fit into one process (tests)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.submits = Counter(
            "grus_submits", "Jobs taken on: on disk before the client heard yes.", registry=self.registry
        )
        self.decide = Histogram(
            "grus_decide_seconds", "Time of one decision.", registry=self.registry, buckets=BUCKETS
        )

    def timed(self, decide: Decide) -> Decide:
        """The same decision, measured."""

        def measured(snapshot: Snapshot, now: float) -> Decisions:
            began = time.perf_counter()
            try:
                return decide(snapshot, now)
            finally:
                self.decide.observe(time.perf_counter() - began)

        return measured
