"""What `report` tells of scaling, the page that it writes, and the static split that it simulates."""

import json
from pathlib import Path

from grus.api.wire import EventOut
from tests.cli.conftest import Grus
from tests.cli.fake import FakeClient, a_job
from tests.cli.test_report import a_report
from tests.reports.test_page import a_report as a_full_report

NOON, ONE = "2026-01-05T12:00:00Z", "2026-01-05T13:00:00Z"


def an_ended_job(client: FakeClient) -> None:
    """Two GPUs for an hour."""
    job = "j0000000001"
    times = {"submitted_at": NOON, "started_at": NOON, "first_started_at": NOON, "ended_at": ONE}
    client.known = [a_job(job, queue="default", phase="succeeded", **times)]
    client.happened = [
        EventOut(seq=1, at=NOON, kind="submitted", text="", job=job, gpus=0),
        EventOut(seq=2, at=NOON, kind="running", text="", job=job, gpus=2, working=2),
        EventOut(seq=3, at=ONE, kind="succeeded", text="", job=job, gpus=0, working=0),
    ]


def test_speed_ups_and_what_jobs_have_shown_are_told(grus: Grus, client: FakeClient) -> None:
    client.reported = a_full_report()
    text = grus("report").stdout
    assert "1.80 times as fast on 2 GPUs as on 1" in text
    assert "EFFICIENCY" in text
    assert "✓ yes (1 lost)" in text
    assert "BEFORE AND AFTER" in text


def test_a_page_is_written_whole(grus: Grus, client: FakeClient, tmp_path: Path) -> None:
    client.reported = a_full_report()
    assert grus("report", "--html", str(tmp_path / "out.html")).exit_code == 0
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "Plotly" in text
    assert "Where the GPU time went" in text
    assert [path.name for path in tmp_path.iterdir()] == ["out.html"]


def test_all_that_is_wrong_is_told_before_anything_is_asked(grus: Grus, client: FakeClient) -> None:
    done = grus("report", "--static", "--queue", "vision", "--html", "/nowhere/out.html")
    assert done.exit_code == 2
    assert "static: is of all queues together" in done.stderr
    assert "html: must be a file in a folder that is there" in done.stderr
    assert client.asked == []


def test_the_ended_jobs_are_played_on_a_static_split(grus: Grus, client: FakeClient) -> None:
    an_ended_job(client)
    client.reported = a_report(jobs_in_all=3)
    found = json.loads(grus("report", "--static", "-o", "json").stdout)["static"]
    assert found["shares"] == {"default": 4}
    assert [side["name"] for side in found["sides"]] == ["measured", "present", "static split"]
    assert found["sides"][0]["completion_mean"] == 3600.0
    assert found["left_out"] == 2


def test_without_ended_jobs_it_is_said_that_nothing_can_be_played(grus: Grus, client: FakeClient) -> None:
    client.reported, client.happened = a_report(), []
    assert "nothing to play on a static split" in grus("report", "--static").stdout
