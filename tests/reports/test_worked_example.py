"""The worked example of docs/reports.md: every figure that stands there is what comes out."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from grus.model.identifiers import DeviceId, JobId, NodeId, QueueName
from grus.model.jobs import Phase
from grus.model.metrics_history import Reported, curves
from grus.model.nodes import Device, Node
from grus.model.queues import Queue, Quota
from grus.model.resources import GPU
from grus.reports.efficiency import efficiency
from grus.reports.elasticity import elasticity
from grus.reports.gpu_hours_breakdown import hours
from grus.reports.history_types import JobPast, PoolHistory
from grus.reports.scaling_efficiency import scalability
from grus.reports.static_split import of_past, split
from grus.telemetry.tsdb import Series
from tests.reports.builders import a_past_job, a_span, an_event

PAGE = Path(__file__).parents[2] / "docs" / "reports.md"
MINUTE, HOUR = 60.0, 3600.0
NODES = (Node(NodeId("n"), tuple(Device(DeviceId(f"g{n}"), "V100", 16_000_000_000) for n in range(4))),)
QUEUES = tuple(Queue(name=QueueName(name), quota=Quota.of(2)) for name in ("speech", "vision"))


def told(at: float, step: float, gpus: int) -> Reported:
    figures = (("step", step), ("batch", 256.0))
    return Reported(job=JobId("resnet"), number=int(at), attempt=1, at=at, figures=figures, gpus=gpus * GPU)


def resnet() -> JobPast:
    """On 2 GPUs for half an hour, then on 4 for an hour; a worker is lost in between."""
    events = (
        an_event(0.0, "submitted", attempt=0),
        an_event(0.0, "starting", 2),
        an_event(0.0, "running", 2, 2),
        an_event(0.0, "team", 2, 2),
        an_event(30 * MINUTE, "resized", 4, 2),
        an_event(30 * MINUTE + 30, "team", 4, 4),
        an_event(75 * MINUTE, "team", 4, 3, lost=1),
        an_event(75 * MINUTE + 45, "team", 4, 4, lost=1),
        an_event(90 * MINUTE, "succeeded", lost=1),
    )
    slow = [told(minute * MINUTE, 100.0 * minute, 2) for minute in range(31)]
    fast = [told(minute * MINUTE, 3000.0 + 180.0 * (minute - 30), 4) for minute in range(31, 91)]
    use = np.array([0.9] * 75 + [0.1] * 15)
    job = a_past_job(
        "resnet",
        *events,
        gpus="2..4",
        asked=2,
        most=4,
        spans=(a_span(0, 30 * MINUTE, 2), a_span(30 * MINUTE, 90 * MINUTE, 4)),
        queue="vision",
    )
    record = replace(job.job, started_at=0.0, first_started_at=0.0, ended_at=90 * MINUTE)
    reports = curves([*slow, *fast])
    return replace(job, job=record, curves=reports, utilisation=Series(0.0, MINUTE, use))


def gang() -> JobPast:
    """Waits for half an hour, then has all 4 GPUs for as long."""
    events = (
        an_event(60 * MINUTE, "submitted", attempt=0),
        an_event(90 * MINUTE, "starting", 4),
        an_event(90 * MINUTE, "running", 4, 4),
        an_event(120 * MINUTE, "succeeded"),
    )
    spans = (
        a_span(60 * MINUTE, 90 * MINUTE, 0, waits=True, attempt=0),
        a_span(90 * MINUTE, 120 * MINUTE, 4),
    )
    job = a_past_job("gang", *events, gpus=4, asked=4, most=4, spans=spans, queue="speech")
    record = replace(
        job.job,
        submitted_at=60 * MINUTE,
        started_at=90 * MINUTE,
        first_started_at=90 * MINUTE,
        ended_at=120 * MINUTE,
        phase=Phase.SUCCEEDED,
    )
    use = Series(90 * MINUTE, MINUTE, np.full(30, 0.5))
    return replace(job, job=record, utilisation=use)


def figures() -> dict[str, float]:
    past = PoolHistory(since=0.0, until=2 * HOUR, jobs=(resnet(), gang()), nodes=NODES, queues=QUEUES)
    whole, jobs = hours(past)
    made = efficiency(past, jobs[0], None)
    scaled, bent = scalability(past), elasticity(past)
    [speed] = scaled.speedups
    adapting = {one.to: one for one in bent.adapting}
    compared = split(of_past(past), buying=False)
    assert bent.supply is not None
    assert compared is not None
    measured, present, static = compared.sides
    return {
        "capacity": whole.capacity,
        "allocated": whole.held.allocated,
        "unwanted": whole.unwanted or 0.0,
        "busy": whole.held.busy or 0.0,
        "over-asking": whole.held.over_asking or 0.0,
        "idle": whole.held.idle or 0.0,
        "useful": whole.held.useful or 0.0,
        "steps": made.steps or 0.0,
        "samples a GPU-hour": made.per_gpu_hour or 0.0,
        "speed-up on 4 GPUs": speed.sizes[-1].speedup,
        "efficiency on 4 GPUs": speed.sizes[-1].efficiency,
        "resizes that worked": scaled.worked,
        "seconds to grow": adapting["grow"].median or 0.0,
        "seconds until the lost one was replaced": adapting["loss"].median or 0.0,
        "wanted": bent.supply.wanted_gpu_hours,
        "unmet": bent.supply.unmet_gpu_hours,
        "beyond": bent.supply.beyond_gpu_hours,
        "mean completion, as it was": measured.completion_mean,
        "mean completion, one pool": present.completion_mean,
        "mean completion, static split": static.completion_mean,
    }


def on_the_page() -> dict[str, float]:
    section = PAGE.read_text(encoding="utf-8").split("## A worked example")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([0-9,.]+)[^|]* \|$", section, re.MULTILINE)
    return {name.strip(): float(value.replace(",", "")) for name, value in rows}


def test_every_figure_of_the_worked_example_is_what_comes_out() -> None:
    assert on_the_page() == pytest.approx(figures(), rel=0.005)
