"""The page of a report: everything is there, nothing is loaded, what users wrote stays text."""

import json
import re
from html import unescape

import pytest

from grus.api.scaling_wire import SplitOut, SplitSideOut
from grus.api.wire_types.report import HeldOut, HoursOut, JobReportOut, QueueHoursOut, ReportOut
from grus.reports import charts, text_tables
from grus.reports.elasticity import elasticity
from grus.reports.report_html import page, sentence
from grus.reports.scaling_efficiency import scalability
from grus.reports.text_tables import GpuTime
from tests.reports.builders import a_past, a_span
from tests.reports.test_elasticity import JOINS, LOSES, RUNS, of
from tests.reports.test_scaling_efficiency import a_run

EVIL = "<img src=x onerror=alert(1)></script>"
SINCE, UNTIL = "2026-11-16T10:00:00.000Z", "2026-11-16T12:00:00.000Z"
HELD = HeldOut(
    allocated=10.0, measured=8.0, busy=4.0, useful=3.0, idle=3.0, over_asking=1.0, restarted=0.5, failed=0.2
)
HOURS = HoursOut(
    since=SINCE,
    until=UNTIL,
    capacity=16.0,
    held=HELD,
    demand=14.0,
    waiting=2.0,
    fragmentation=1.0,
    unwanted=3.0,
)


def a_report(name: str = "resnet", **more: object) -> ReportOut:
    past = a_past(a_run(name), of(*RUNS, *JOINS, *LOSES, spans=(a_span(0, 100, 2),)))
    job = JobReportOut(
        id="j1",
        name=name,
        queue=name,
        user="ada",
        phase="succeeded",
        submitted_at=SINCE,
        held=HELD,
        unit="samples",
        per_gpu_hour=1234.0,
    )
    side = SplitSideOut(
        name="measured",
        jobs=2,
        completion_mean=60.0,
        completion_p50=50.0,
        completion_p99=90.0,
        wait_mean=20.0,
        wait_p99=30.0,
        makespan=100.0,
    )
    given: dict[str, object] = {
        "since": SINCE,
        "until": UNTIL,
        "gpus": 8,
        "whole": True,
        "hours": HOURS,
        "timeline": (HOURS, HOURS),
        "queues": tuple(QueueHoursOut(name=queue, jobs=1, held=HELD, waited=1.0) for queue in (name, "b")),
        "jobs": (job,),
        "jobs_in_all": 1,
        "notes": (f"Nothing is known of {name}.",),
        "scalability": scalability(past),
        "elasticity": elasticity(past),
        "static": SplitOut(shares={name: 4}, sides=(side, side.model_copy(update={"name": "present"}))),
    }
    return ReportOut.model_validate(given | more)


def drawn(text: str) -> dict[str, dict[str, object]]:
    found = re.findall(
        r'<script class="figure" type="application/json" data-plot="([^"]*)">(.*?)</script>', text
    )
    return {name: json.loads(figure) for name, figure in found}


def test_the_page_has_every_section_and_every_plot() -> None:
    text = page(a_report(), "/* plotly */")
    for heading in ("Where the GPU time went", "Efficiency", "Scalability", "Elasticity", "Before and after"):
        assert heading in text
    assert drawn(text).keys() == {
        "where",
        "over-time",
        "speedup-0",
        "courses",
        "supply",
        "before-after",
    }


def test_what_users_wrote_stays_text() -> None:
    text = page(a_report(EVIL), "/* plotly */")
    assert "<img" not in text
    assert text.count("</script>") == 2 + len(drawn(text))
    assert EVIL in unescape(text)


def test_nothing_is_loaded_from_anywhere_and_the_same_report_gives_the_same_bytes() -> None:
    text = page(a_report(), "/* plotly */")
    assert not re.search(r'(src|href)="(?!data:)', text)
    assert text == page(a_report(), "/* plotly */")


def test_sections_that_were_not_asked_for_are_not_there() -> None:
    text = page(a_report(static=None, scalability=None, elasticity=None, jobs=(), notes=()), "")
    for heading in ("Scalability", "Elasticity", "Before and after", "Efficiency", "could not be known"):
        assert f"<h2>{heading}" not in text


def test_the_sentence_says_what_was_held_busy_useful_and_what_cost_most() -> None:
    assert sentence(a_report()) == (
        "Of 16.0 GPU-hours, jobs held 62%; 25% were busy and 19% useful. "
        "Most was lost to GPUs that were idle while held (3.00 GPU-hours)."
    )


def test_what_was_not_measured_is_said_and_never_zero() -> None:
    held = HeldOut(allocated=10.0, measured=0.0)
    hours = HOURS.model_copy(update={"held": held, "waiting": None})
    assert "was not measured" in sentence(a_report(hours=hours))
    _, rows = text_tables.hours_table(hours, GpuTime.of(16.0))
    cells = {row[0]: row[1] for row in rows}
    assert (cells["· busy"], cells["· not measured"]) == ("–", "10.0")
    assert cells["free while jobs waited"] == "–"
    traces = charts.where(hours)["data"]
    assert isinstance(traces, list)
    assert "busy" not in [trace["name"] for trace in traces]


def test_the_parts_of_the_bars_add_up_to_the_pool_and_to_what_jobs_held() -> None:
    found = charts.parts(HOURS)
    assert sum(found[field] or 0.0 for field, _, _ in charts.POOL) == pytest.approx(HOURS.capacity)
    assert sum(found[field] or 0.0 for field, _, _ in charts.HELD) == pytest.approx(HELD.allocated)


def test_little_time_is_told_in_minutes() -> None:
    assert GpuTime.of(0.1).told(0.05) == "3.00 GPU-minutes"
    assert GpuTime.of(16.0).told(0.05) == "0.05 GPU-hours"
    assert [text_tables.amount(value) for value in (None, 0.0, 0.001, 1234.5)] == [
        "–",
        "0",
        "< 0.01",
        "1,234",
    ]


def test_before_and_after_show_waiting_and_working_apart() -> None:
    report = a_report()
    assert report.static is not None
    traces = charts.before_after(report.static)["data"]
    assert isinstance(traces, list)
    assert [(one["name"], one["x"]) for one in traces] == [
        ("with GPUs", [40.0, 40.0]),
        ("waiting", [20.0, 20.0]),
    ]
