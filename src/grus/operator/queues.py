"""GpuQueues, checked and kept up to date: the version in force of each, its errors, and its usage.

`queue_rules` decides, this module reads and writes. A deleted queue stays, and accepts nothing new, until its
jobs have ended.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from grus.concurrency.background_thread import BackgroundThread
from grus.controlplane import cluster_view
from grus.controlplane.facade.services import Services
from grus.controlplane.reconciler.loop import ControlLoop
from grus.kubernetes.api_objects.gpu_queues import accepted_queues, accepted_spec
from grus.kubernetes.client.api import Api, Conflicts, Missing
from grus.kubernetes.client.informer import Reflector
from grus.kubernetes.client.resource_kinds import GPU_QUEUES, Object
from grus.model.errors import GrusError
from grus.model.identifiers import QueueName
from grus.model.interfaces import Store
from grus.model.jobs import TERMINAL, Job, Phase
from grus.model.queues import Queue, gpus
from grus.operator.admission import MANAGER
from grus.operator.conditions import Condition, with_conditions
from grus.operator.namespaces import Openness, openness
from grus.operator.validate_queues import QueueValidation, beyond_pool, judge, leave

log = logging.getLogger(__name__)

FINALIZER = "grus.dev/queue"
FIGURES = 5.0
"""Seconds between two looks at how full the queues are."""
Figures = dict[str, dict[str, Any]]
"""Usage in the status of each queue."""
UNFINISHED = tuple(phase for phase in Phase if phase not in TERMINAL)


@dataclass(frozen=True, slots=True)
class Counting:
    """Versions in force of the GpuQueues."""

    queues: tuple[Queue, ...]
    openness: dict[QueueName, Openness]


class QueueBook:
    """The GpuQueues as they are, and what counts of them."""

    def __init__(self, api: Api, on_change: Callable[[], None] = lambda: None) -> None:
        self.on_change = on_change
        self._read: tuple[list[Object], Counting] = ([], Counting((), {}))
        self.objects = Reflector(api, GPU_QUEUES, on_change=lambda *_: self.on_change())

    def accepted(self) -> list[Queue]:
        """The queues that count."""
        return list(self._counting().queues)

    def openness(self) -> dict[QueueName, Openness]:
        """Return the namespace rule of each queue."""
        return self._counting().openness

    def close(self) -> None:
        self.objects.close()

    def _counting(self) -> Counting:
        """Return the versions in force; computed again only
        when an object has changed: every new plain pod asks.
        """
        objects = self.objects.all()
        known, found = self._read
        if len(known) != len(objects) or any(a is not b for a, b in zip(known, objects, strict=True)):
            found = _counting(objects)
            self._read = objects, found
        return found


class Queues:
    """One per controller, while it leads."""

    def __init__(
        self,
        api: Api,
        book: QueueBook,
        store: Store,
        loop: ControlLoop,
        services: Services,
        *,
        valid: Callable[[], bool],
        on_change: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._store = store
        self._loop = loop
        self._services = services
        self._valid = valid
        self._on_change = on_change
        self._clock = clock
        self._objects = book.objects
        self._thread = BackgroundThread("queues", self._round, retry=FIGURES)
        book.on_change = self._thread.wake

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._thread.close()

    def look(self) -> None:
        """Bring all objects up to date once."""
        jobs = self._store.jobs(phases=UNFINISHED)
        objects = self._objects.all()
        figures = self._figures()
        verdicts = judge(objects, _count(jobs))
        before = [accepted_spec(one) for one in objects]
        for one in objects:
            self._write(one, verdicts[one["metadata"]["name"]], objects, jobs, figures)
        if before != [verdicts[one["metadata"]["name"]].accepted for one in objects]:
            self._loop.refresh()
            self._on_change()

    def _round(self) -> float:
        try:
            if self._valid():
                self.look()
        except (Conflicts, Missing):
            return 0.0  # a newer version is on its way
        except GrusError as trouble:
            log.warning("the queues are looked at again later: %s", trouble)
        return FIGURES

    def _write(
        self, one: Object, verdict: QueueValidation, objects: list[Object], jobs: list[Job], figures: Figures
    ) -> None:
        name = QueueName(one["metadata"]["name"])
        going = "deletionTimestamp" in one["metadata"]
        why = ""
        if going:
            why = leave(name, objects, (_name(job) for job in jobs if job.spec.queue == name))
            if not why:
                self._finalizers(one, held=False)
                return
        elif FINALIZER not in (one["metadata"].get("finalizers") or ()):
            one = self._finalizers(one, held=True)
        status = {**self._status(one, verdict, why, objects), **figures.get(name, {})}
        kept = one.get("status") or {}
        if any(kept.get(key) != value for key, value in status.items()):
            body = {"metadata": {"resourceVersion": one["metadata"]["resourceVersion"]}, "status": status}
            self._objects.note(self._api.patch(GPU_QUEUES, name, body, part="status"))

    def _finalizers(self, one: Object, *, held: bool) -> Object:
        others = [name for name in one["metadata"].get("finalizers") or () if name != FINALIZER]
        metadata = {
            "resourceVersion": one["metadata"]["resourceVersion"],
            "finalizers": [*others, FINALIZER] if held else others,
        }
        made = self._api.patch(GPU_QUEUES, one["metadata"]["name"], {"metadata": metadata})
        if held:
            self._objects.note(made)
        return made

    def _status(
        self, one: Object, verdict: QueueValidation, why: str, objects: list[Object]
    ) -> dict[str, Any]:
        said = [
            Condition("Accepted", False, "BadInput", "; ".join(verdict.mistakes))
            if verdict.mistakes
            else Condition("Accepted", True, "Accepted")
        ]
        more = beyond_pool(accepted_queues(objects), cluster_view.size(self._loop.picture.nodes))
        said.append(
            Condition("WithinPool", False, "Oversubscribed", more)
            if more and not (one.get("spec") or {}).get("parent")
            else Condition("WithinPool", True, "WithinPool")
        )
        if why:
            said.append(Condition("InUse", True, "Deleted", f"deleted, but {why}"))
        conditions = (one.get("status") or {}).get("conditions") or ()
        return {
            "accepted": verdict.accepted,
            "observedGeneration": one["metadata"].get("generation", 0),
            "conditions": with_conditions(conditions, said, self._clock()),
        }

    def _figures(self) -> Figures:
        return {
            state.name: {
                "used": gpus(state.held),
                "borrowed": gpus(state.borrowed),
                "running": state.running,
                "waiting": state.waiting,
            }
            for state in self._services.queues.states(MANAGER)
        }


def _counting(objects: list[Object]) -> Counting:
    verdicts = judge(objects, {})
    found = [(one, verdicts[one["metadata"]["name"]].accepted) for one in objects]
    counting = [{**one, "status": {"accepted": spec}} for one, spec in found if spec is not None]
    open_to = {QueueName(one["metadata"]["name"]): openness(one) for one in counting}
    return Counting(tuple(accepted_queues(counting)), open_to)


def _count(jobs: list[Job]) -> dict[QueueName, int]:
    found: dict[QueueName, int] = {}
    for job in jobs:
        found[job.spec.queue] = found.get(job.spec.queue, 0) + 1
    return found


def _name(job: Job) -> str:
    return f"{job.user}/{job.spec.name}"
