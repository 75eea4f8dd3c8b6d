"""`/healthz` for process monitors, `/metrics` for Prometheus (with a token).

Labels are queues, phases, states of workers and devices: sets with few values. Never jobs or users.
"""

from collections.abc import Iterator, Mapping, Sequence

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from starlette.responses import Response

from grus.controlplane.facade.services import Services
from grus.model.interfaces import User
from grus.model.jobs import Phase
from grus.model.resources import GPU
from grus.scheduler.queues.queue_usage_tree import QueueState
from grus.server.http.dependencies import Does, Live, Who, off_loop
from grus.server.http.event_streams import json_bytes
from grus.server.runtime import device_metrics
from grus.server.runtime.health import ServerHealth
from grus.server.runtime.server_metrics import Figures

router = APIRouter()


@router.get("/healthz", tags=["server"], responses={503: {"description": "It does not, and why."}})
async def healthz(request: Request) -> Response:
    """200 while the control loop makes its passes, 503 with the reason otherwise."""
    health: ServerHealth = request.app.state.health
    wrong = health.wrong()
    body = {"ok": not wrong, "loop_age_s": round(health.age, 3), **({"wrong": wrong} if wrong else {})}
    return Response(json_bytes(body), 503 if wrong else 200, media_type="application/json")


@router.get("/metrics", tags=["server"], response_class=Response)
async def metrics(request: Request, user: Who, does: Does, streams: Live) -> Response:
    """Prometheus text."""
    figures: Figures = request.app.state.figures
    health: ServerHealth = request.app.state.health
    text = await off_loop(_text, figures, does, user, streams.count, health.age)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def _text(figures: Figures, does: Services, user: User, streams: int, age: float) -> bytes:
    families = [
        *_of_queues(does, user),
        *_of_jobs(does, user),
        *_of_pool(does, user),
        *_of_workers(does, user),
        *_of_disk(does),
        _of_backups(does),
        _of_notifications(does),
        *(device_metrics.families(does.telemetry.now(user)) if does.watched else ()),
        _gauge("grus_streams", "Open live streams.", {(): streams}),
        _gauge("grus_loop_age_seconds", "Time since the last pass of the control loop.", {(): age}),
    ]
    registry = CollectorRegistry()
    registry.register(_Read(families))
    return generate_latest(figures.registry) + generate_latest(registry)


class _Read:
    """Families of metrics that were read just now."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def _gauge(
    name: str, text: str, values: Mapping[tuple[str, ...], float], labels: Sequence[str] = ()
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _of_queues(does: Services, user: User) -> list[GaugeMetricFamily]:
    states = does.queues.states(user)
    gpus = {
        "held": "GPUs that the queue's jobs hold.",
        "quota": "GPUs that the queue deserves.",
        "borrowed": "GPUs held above the quota.",
        "demand": "GPUs that the queue's jobs could use.",
        "fair_share": "GPUs that fairness gives the queue now.",
    }
    counts = {"waiting": "Jobs that wait.", "running": "Jobs that hold GPUs."}
    return [
        *(
            _gauge(f"grus_queue_{name}_gpus", text, _by_queue(states, name, GPU), ["queue"])
            for name, text in gpus.items()
        ),
        *(
            _gauge(f"grus_queue_{name}_jobs", text, _by_queue(states, name, 1), ["queue"])
            for name, text in counts.items()
        ),
    ]


def _by_queue(states: list[QueueState], name: str, unit: int) -> dict[tuple[str, ...], float]:
    return {(state.name,): getattr(state, name) / unit for state in states}


def _of_jobs(does: Services, user: User) -> list[GaugeMetricFamily]:
    counts = does.pool.status(user).jobs
    phases: dict[tuple[str, ...], float] = {(phase.value,): counts.get(phase, 0) for phase in Phase}
    return [_gauge("grus_jobs", "Jobs in each phase.", phases, ["phase"])]


def _of_pool(does: Services, user: User) -> list[GaugeMetricFamily]:
    held = {device: sum(share for _, share in jobs) / GPU for device, jobs in does.pool.holders(user).items()}
    busy: dict[tuple[str, ...], float] = {}
    usable: dict[tuple[str, ...], float] = {}
    for node in does.pool.nodes(user):
        for device in node.devices:
            busy[node.id, device.id] = held.get(device.id, 0.0)
            usable[node.id, device.id] = device.usable
    return [
        _gauge("grus_device_busy", "Part of the device that jobs hold, 0 to 1.", busy, ["node", "device"]),
        _gauge("grus_device_usable", "1 if it may be used.", usable, ["node", "device"]),
    ]


def _of_workers(does: Services, user: User) -> list[GaugeMetricFamily]:
    use = does.pool.usage(user)
    return [
        _gauge("grus_workers", "Worker processes that run.", {(): len(use)}),
        _gauge("grus_workers_memory_bytes", "Their memory.", {(): sum(one.memory for one in use)}),
    ]


def _of_disk(does: Services) -> list[GaugeMetricFamily]:
    disk = does.pool.state_disk()
    values: dict[str, dict[tuple[str, ...], float]] = {"free": {}, "size": {}}
    if disk is not None:
        values = {"free": {(): disk[0]}, "size": {(): disk[1]}}
    return [
        _gauge("grus_state_free_bytes", "Free bytes of the disk that holds the state.", values["free"]),
        _gauge("grus_state_size_bytes", "Size of the disk that holds the state.", values["size"]),
    ]


def _of_backups(does: Services) -> GaugeMetricFamily:
    text = "Unix time of the newest backup of the state; absent before the first."
    at = does.pool.last_backup_at()
    return _gauge("grus_last_backup_timestamp_seconds", text, {} if at is None else {(): at})


def _of_notifications(does: Services) -> GaugeMetricFamily:
    text = "Time since which a receiver of notifications fails; 0 while it does not."
    ages: dict[tuple[str, ...], float] = {(name,): age for name, age in does.notifications.failing().items()}
    return _gauge("grus_notifications_failing_seconds", text, ages, ["receiver"])
