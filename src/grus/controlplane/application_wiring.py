"""Composition root of the control plane: builds all parts, starts them in order, and closes them in reverse.

The server and the Kubernetes controller both use it; they differ in the store, engine and telemetry that they
pass in. Parts that need files of the server's own machine (stage cache, notifications, sweeps, artifacts) are
left out where jobs run in containers.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Protocol

from grus.controlplane.artifacts.gc import Collector
from grus.controlplane.eta.forecast_service import Forecaster
from grus.controlplane.facade.services import Services
from grus.controlplane.fingerprint.profile_cache import Profiles
from grus.controlplane.history.finished_runs_recorder import ResultKeeper
from grus.controlplane.history.retention import Retention
from grus.controlplane.jobs.stage_cache import Skipping
from grus.controlplane.monitoring.activity_tag_store import TagKeeper
from grus.controlplane.monitoring.profile_ingest import Profiling
from grus.controlplane.monitoring.profile_query import Insight
from grus.controlplane.monitoring.telemetry_collector import Facts, Watching, holding
from grus.controlplane.notifications.messages import Subscription
from grus.controlplane.notifications.receivers import Notifier
from grus.controlplane.notifications.sender import Sender
from grus.controlplane.reconciler.loop import ControlLoop, Decide, Tags
from grus.controlplane.settings import Settings
from grus.controlplane.sweeps.sweep_controller import Sweeper
from grus.controlplane.sweeps.trial_index import Trials
from grus.model.identifiers import DeviceId, NodeId
from grus.model.interfaces import Engine, Store
from grus.model.jobs import Job
from grus.scheduler import cycle
from grus.scheduler.state.snapshot import Snapshot

Telemetry = Callable[[ControlLoop, Facts], Watching]
"""Builds the sampler of a loop's jobs. The caller owns the recorder behind it."""


class Part(Protocol):
    """Part with a thread of its own. `close` is idempotent."""

    def start(self) -> None: ...

    def close(self) -> None: ...


class ControlPlane:
    """All parts of a control plane. `start` takes over; `close` stops what was started, and workers continue.

    The caller owns store and engine, and closes them afterwards.
    """

    def __init__(
        self,
        store: Store,
        engine: Engine,
        settings: Settings,
        telemetry: Telemetry,
        *,
        decide: Decide = cycle.decide,
        snapshot: Snapshot | None = None,
        tags: Tags | None = None,
        channels: Sequence[tuple[Sender, Subscription]] = (),
        forecasts: bool = True,
        clock: Callable[[], float] = time.time,
        on_stopped: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Build the parts. `tags` are those of jobs; by default the sampler recognizes them."""
        self.profiles = Profiles(store)
        self._local = not settings.containers
        self._stack = ExitStack()
        self.stage_cache = Skipping(
            store,
            holds=lambda user, artifact: self.loop.picture.vaults.holds(user, artifact),
            near=self._nearest_nodes,
            epoch=lambda: self.loop.pulse.epoch,
        )
        self.loop = ControlLoop(
            store,
            engine,
            settings=settings,
            clock=clock,
            decide=decide,
            snapshot=snapshot,
            tags=tags or (lambda now: self.sampler.jobs(now)),
            compare=self.stage_cache.ask if self._local else None,
            profiles=self.profiles,
            on_stopped=on_stopped,
        )
        self.results = ResultKeeper(store, self.profiles)
        self.profiling = Profiling(
            store,
            self.profiles,
            jobs=lambda: holding(self.loop),
            types=self._device_types,
            containers=settings.containers,
            clock=clock,
            on_ended=self.results.ended,
        )
        self.sampler = telemetry(self.loop, self.profiling.facts)
        self.profiling.watch(self.sampler)
        self.tag_keeper = TagKeeper(store)
        self.tag_keeper.watch(self.sampler, lambda: holding(self.loop))
        self.forecaster = Forecaster(store, self.loop) if forecasts else None
        self.notifier = Notifier(store, channels, settings.state / "notifications" if self._local else None)
        trials = Trials(store)
        self.services = Services(
            store,
            engine,
            self.loop,
            settings=settings,
            clock=clock,
            forecaster=self.forecaster,
            watching=self.sampler,
            insight=Insight(store, self.profiles, self.tag_keeper, settings.containers, clock),
            trials=trials,
            notifications=self.notifier,
        )
        self.sweeper = Sweeper(store, self.loop, trials)
        collector = Collector(store, settings, self.loop.picture.vaults) if self._local else None
        self.retention = Retention(store, engine, settings, clock, collector)

    def start(self) -> None:
        """Take over, then start the other parts. Raises what keeps the loop from taking over."""
        self.notifier.open()  # before the loop writes an event
        self._start(self.loop, self.notifier)
        if self._local:
            self._start(self.stage_cache)
        self._start(self.results, self.profiling, self.sampler)
        if self.forecaster is not None:
            self._start(self.forecaster)
        self._stack.callback(self.services.close)
        if self._local:
            self._start(self.sweeper)
        self._start(self.retention)

    def _start(self, *parts: Part) -> None:
        for part in parts:
            self._stack.callback(part.close)
            part.start()

    def close(self) -> None:
        """Stop all parts in reverse order. Idempotent."""
        self._stack.close()

    def _device_types(self) -> Mapping[DeviceId, str]:
        return {device.id: device.type for node in self.loop.picture.nodes for device in node.devices}

    def _nearest_nodes(self, job: Job) -> tuple[NodeId, ...]:
        picture = self.loop.picture
        return picture.vaults.nearest(job, [node.id for node in picture.nodes])
