"""The verb `report`: tables for people, JSON for programs, a dash for what nobody measured."""

import json

from grus.api.wire_types.report import HeldOut, HoursOut, JobReportOut, QueueHoursOut, ReportOut, TargetOut
from tests.cli.conftest import Grus
from tests.cli.fake import FakeClient, a_job

NOON, LATER = "2026-01-05T12:00:00Z", "2026-01-06T12:00:00Z"
HELD = HeldOut(
    allocated=48.0, measured=40.0, busy=30.0, useful=24.0, idle=6.0, over_asking=4.0, utilisation=0.75
)
BLIND = HeldOut(allocated=12.0, measured=0.0)


def a_report(held: HeldOut = HELD, **more: object) -> ReportOut:
    hours = HoursOut(
        since=NOON, until=LATER, capacity=96.0, held=held, demand=60.0, waiting=3.0, unwanted=45.0
    )
    given = {"since": NOON, "until": LATER, "gpus": 4, "whole": True, "hours": hours, **more}
    return ReportOut.model_validate(given)


def a_row(**more: object) -> JobReportOut:
    given = {
        "id": "j0000000001",
        "name": "resnet",
        "queue": "vision",
        "user": "ada",
        "phase": "succeeded",
        "submitted_at": NOON,
        "ran": 3600.0,
        "held": HELD,
        **more,
    }
    return JobReportOut.model_validate(given)


def lines(text: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.split()}


def test_hours_are_shown_with_what_they_are_parts_of(grus: Grus, client: FakeClient) -> None:
    client.reported = a_report()
    found = lines(grus("report").stdout)
    assert found["capacity"] == ["96.0"]
    assert found["allocated"][:2] == ["48.0", "50%"]
    assert found["busy"][:2] == ["30.0", "75%"]
    assert found["over-asking"][0] == "4.00"
    assert client.asked[-1] == ("report", "", "", "", "")


def test_what_nobody_measured_is_a_dash_never_a_zero(grus: Grus, client: FakeClient) -> None:
    client.reported = a_report(BLIND)
    found = lines(grus("report").stdout)
    assert found["busy"][0] == found["useful"][0] == found["idle"][0] == found["fragmentation"][0] == "–"


def test_a_job_is_meant_by_its_name_and_its_output_is_told(grus: Grus, client: FakeClient) -> None:
    client.known = [a_job("j0000000001", name="resnet")]
    made = a_row(samples=4.8e6, unit="samples", per_gpu_hour=1e5, cost=96.0)
    client.reported = a_report(jobs=(made,), jobs_in_all=1, currency="EUR", cost=96.0, energy_kwh=12.5)
    text = grus("report", "--job", "resnet", "--since", "3d").stdout
    assert "100,000 samples" in text
    assert "96.00 EUR" in text
    assert "12.50 kWh" in text
    assert client.asked[-1] == ("report", "3d", "j0000000001", "", "")


def test_the_time_to_a_target_stands_beside_its_job(grus: Grus, client: FakeClient) -> None:
    target = TargetOut(at=LATER, since_submitted=7200.0, since_started=7000.0, gpu_hours=8.0)
    client.reported = a_report(jobs=(a_row(target=target),), jobs_in_all=1, target="loss<=0.3")
    assert "2h, 8.00 GPU-hours" in grus("report", "--target", "loss<=0.3").stdout
    assert client.asked[-1][-1] == "loss<=0.3"


def test_queues_many_jobs_and_notes_are_told(grus: Grus, client: FakeClient) -> None:
    queues = tuple(QueueHoursOut(name=name, jobs=9, held=HELD, waited=60.0) for name in ("speech", "vision"))
    jobs = tuple(a_row(id=f"j{number:010}") for number in range(25))
    client.reported = a_report(queues=queues, jobs=jobs, jobs_in_all=25, notes=("Something is not known.",))
    text = grus("report").stdout
    assert "speech" in text
    assert "5 more" in text
    assert text.endswith("Something is not known.\n")


def test_a_time_without_jobs_says_so(grus: Grus, client: FakeClient) -> None:
    client.reported = a_report(HeldOut(allocated=0.0, measured=0.0))
    assert "No job was there in this time." in grus("report").stdout


def test_json_is_what_the_server_said(grus: Grus, client: FakeClient) -> None:
    client.reported = a_report(jobs=(a_row(),))
    assert json.loads(grus("report", "-o", "json").stdout) == client.reported.model_dump(mode="json")


def test_a_time_that_is_none_is_named_as_it_was_given(grus: Grus, client: FakeClient) -> None:
    told = grus("report", "--since", "yesterday")
    assert told.exit_code == 2
    assert "since: write a length of time" in told.stderr
