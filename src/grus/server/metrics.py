"""`/healthz` for whoever watches the process, `/metrics` for Prometheus (with a token).

Labels are queues, phases, states of workers and devices: things of which there are few. Never jobs or users.
"""

from collections.abc import Iterator

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from starlette.responses import Response

from grus.controlplane.services import Services
from grus.model.ports import User
from grus.server.edge import Does, Live, Who, off_loop
from grus.server.figures import Figures
from grus.server.health import Health
from grus.server.streams import json_bytes

router = APIRouter()


@router.get("/healthz", tags=["server"])
async def healthz(request: Request) -> Response:
    """200 while the control loop makes its passes, 503 with the reason otherwise."""
    health: Health = request.app.state.health
    wrong = health.wrong()
    body = {"ok": not wrong, "loop_age_s": round(health.age, 3), **({"wrong": wrong} if wrong else {})}
    return Response(json_bytes(body), 503 if wrong else 200, media_type="application/json")


@router.get("/metrics", tags=["server"], response_class=Response)
async def metrics(request: Request, user: Who, does: Does, streams: Live) -> Response:
    """Prometheus text."""
    figures: Figures = request.app.state.figures
    health: Health = request.app.state.health
    text = await off_loop(_text, figures, does, user, streams.count, health.age)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def _text(figures: Figures, does: Services, user: User, streams: int, age: float) -> bytes:
    families = [
        *_of_queues(does, user),
        *_of_jobs(does, user),
        *_of_pool(does, user),
        *_of_workers(does, user),
        _gauge("grus_streams", "Open live streams.", {(): streams}),
        _gauge("grus_loop_age_seconds", "Time since the last pass of the control loop.", {(): age}),
    ]
    registry = CollectorRegistry()
    registry.register(_Read(families))
    return generate_latest(figures.registry) + generate_latest(registry)


class _Read:
    """Families of metrics that were read just now."""

    def __init__(self, families: list[Metric]) -> None:
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
