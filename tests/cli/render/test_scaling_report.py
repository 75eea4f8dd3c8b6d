"""What `report` tells of scaling, the page that it writes, and the static split that it simulates."""

import json
from dataclasses import replace
from pathlib import Path

from grus.model.jobs import Phase
from grus.model.queues import DEFAULT_QUEUE, Queue, Quota
from grus.simulator.cluster_spec import parse_nodes
from grus.simulator.workload.history_trace import EndedJob, History
from tests.cli.commands.test_usage_report import a_report
from tests.cli.conftest import Grus
from tests.cli.fake import FakeClient
from tests.reports.test_report_html import a_report as a_full_report
from tests.scheduler.builders import a_job as a_stored_job


def an_ended_job(client: FakeClient) -> None:
    """Two GPUs for an hour."""
    job = a_stored_job("a", gpus=2, queue="default", submitted_at=0.0)
    ended = replace(job, phase=Phase.SUCCEEDED, started_at=0.0, ended_at=3600.0)
    client.past = History(
        since=0.0,
        until=4000.0,
        nodes=parse_nodes("1x4xV100"),
        queues=(Queue(name=DEFAULT_QUEUE, quota=Quota.of(4)),),
        jobs=(EndedJob(job=ended, seconds=3600.0, waited=0.0, held=7200.0),),
        left_out=2,
    )


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


def test_a_simulation_of_the_history_has_the_figures_of_the_report(grus: Grus, client: FakeClient) -> None:
    an_ended_job(client)
    client.reported = a_report(jobs_in_all=3)
    split = json.loads(grus("report", "--static", "-o", "json").stdout)["static"]
    found = json.loads(grus("simulate", "--history", "--since", "30d", "-o", "json").stdout)
    assert ("history", "30d", "") in client.asked
    assert found["measured"]["jct_mean"] == split["sides"][0]["completion_mean"] == 3600.0
    present = found["sides"]["present"]["outcomes"][0]
    assert present["jct_mean"] == split["sides"][1]["completion_mean"] == 3600.0
    assert found["model"] == split["model"]
    longer = json.loads(grus("simulate", "--history", "--start-cost", "10", "-o", "json").stdout)
    assert longer["sides"]["present"]["outcomes"][0]["jct_mean"] == 3610.0


def test_a_history_without_ended_jobs_is_refused_with_what_to_do(grus: Grus, client: FakeClient) -> None:
    done = grus("simulate", "--history")
    assert done.exit_code == 2
    assert "reach further back with --since" in done.stderr
    assert client.past.jobs == ()


def test_without_ended_jobs_it_is_said_that_nothing_can_be_played(grus: Grus, client: FakeClient) -> None:
    client.reported = a_report()
    assert "a static split has nothing to simulate" in grus("report", "--static").stdout
