"""What is foreseen of a job, in the tables and sentences of the command."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from grus.api.wire_types.job import EtaOut, PlanOut, WhyOut
from grus.api.wire_types.pool import ForecastsOut, StatusOut
from grus.cli.render import job_eta
from tests.cli.conftest import Grus
from tests.cli.fake import FakeClient, a_job


def in_(**time: float) -> str:
    return (datetime.now(UTC) + timedelta(**time)).isoformat()


def an_eta(**given: object) -> EtaOut:
    return EtaOut(at=in_(), **given)  # type: ignore[arg-type]  # keywords of many types


def waits() -> dict[str, str]:
    """Made when it is looked at: the words count from now."""
    return {
        "start_p50": in_(minutes=12.4),
        "start_p90": in_(minutes=40),
        "end_p50": in_(minutes=30.4),
        "end_p90": in_(days=40),
    }


def test_ps_has_the_columns_only_where_something_is_foreseen(grus: Grus, client: FakeClient) -> None:
    client.known = [a_job()]
    assert "START" not in grus("ps").stdout
    client.known = [a_job(phase="pending", eta=an_eta(**waits())), a_job("j0000000002")]
    shown = grus("ps").stdout
    assert "START" in shown
    assert "END" in shown
    assert "in ~12m" in shown
    assert "in ~30m" in shown


def test_ps_says_nothing_of_the_start_of_a_job_that_runs(grus: Grus, client: FakeClient) -> None:
    client.known = [a_job(phase="running", eta=an_eta(unknown="a session ends when it is stopped"))]
    shown = grus("ps").stdout
    assert "START" not in shown
    assert "END" in shown


def test_ps_prints_the_values_for_programs(grus: Grus, client: FakeClient) -> None:
    given = waits()
    client.known = [a_job(phase="pending", eta=an_eta(**given))]
    [job] = json.loads(grus("ps", "-o", "json").stdout)
    assert job["eta"]["start_p50"] == given["start_p50"]
    assert job["eta"]["end_p90"] == given["end_p90"]


@pytest.mark.parametrize(
    ("given", "start", "end"),
    [
        (lambda: None, "", ""),
        (lambda: an_eta(end_p50=in_(minutes=10), end_p90=in_(hours=2)), "", "in ~"),
        (lambda: an_eta(start_p50=in_(), start_p90=in_(), unknown="no finished job like it"), "soon", "?"),
        (lambda: an_eta(unknown="no finished job like it"), "?", "?"),
    ],
)
def test_what_cannot_be_said_is_a_question_mark_and_what_runs_has_no_start(
    given: Callable[[], EtaOut | None], start: str, end: str
) -> None:
    eta = given()
    assert job_eta.start_words(eta) == start
    assert job_eta.end_words(eta).startswith(end)
    assert bool(job_eta.end_words(eta)) == bool(end)


def test_far_times_are_told_by_the_clock_and_the_day() -> None:
    later = datetime.now(UTC) + timedelta(days=3)
    told = job_eta.end_words(an_eta(end_p50=later.isoformat(), end_p90=later.isoformat()))
    assert told == "~" + later.astimezone().strftime("%a %H:%M")
    month = datetime.now(UTC) + timedelta(days=30)
    assert job_eta.end_words(an_eta(end_p50=month.isoformat())) == month.astimezone().strftime("~%Y-%m-%d")


def test_why_says_when_it_starts_and_at_the_latest(
    grus: Grus, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.known = [a_job(phase="pending")]
    answer = WhyOut(job="j0000000001", code="no_room", sentence="It waits.", eta=an_eta(**waits()))
    monkeypatch.setattr(client, "why", lambda _: answer)
    shown = grus("why", "resnet").stdout
    assert "starts about " in shown
    assert "(P50), at the latest " in shown
    assert "(P90)" in shown


def test_why_says_honestly_that_nothing_is_known(
    grus: Grus, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.known = [a_job()]
    answer = WhyOut(
        job="j0000000001", code="running", sentence="It runs.", eta=an_eta(unknown="no finished job like it")
    )
    monkeypatch.setattr(client, "why", lambda _: answer)
    assert "its end is unknown: no finished job like it" in grus("why", "resnet").stdout


def test_a_plan_says_when_and_what_would_make_it_sooner(
    grus: Grus, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = PlanOut(
        fits=True, starts="later", sentence="It waits.", change="ask for 3 GPUs", eta=an_eta(**waits())
    )
    monkeypatch.setattr(client, "plan", lambda _: answer)
    shown = grus("submit", "-", "--plan", input="run: 'true'\n").stdout
    assert "will start  about " in shown
    assert "sooner      ask for 3 GPUs" in shown


def test_describe_has_both(grus: Grus, client: FakeClient) -> None:
    client.known = [a_job(phase="pending", eta=an_eta(**waits()))]
    shown = grus("describe", "resnet").stdout
    assert "will start" in shown
    assert "will end" in shown
    assert "perhaps weeks later (P90)" not in shown, "forty days are a date"


def test_status_reports_how_forecasts_did(
    grus: Grus, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = ForecastsOut(settled=120, p50_coverage=0.52, p90_coverage=0.9)
    answer = StatusOut(version="1", now=in_(), forecasts=record)
    monkeypatch.setattr(client, "status", lambda: answer)
    assert "of 120 ends 52% came by their P50, 90% by their P90" in grus("status").stdout
    answer = StatusOut(version="1", now=in_(), forecasts=ForecastsOut())
    monkeypatch.setattr(client, "status", lambda: answer)
    assert "none has been put to the test yet" in grus("status").stdout
