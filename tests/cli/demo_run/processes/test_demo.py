"""The demo ends as it should within its time, and leaves nothing behind, also when it is interrupted."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grus.model.errors import NotFound
from grus.sdk.client import Client
from tests.cli.real import RealGrus
from tests.reports import recomputing_scaling
from tests.reports.recomputing import HOUR, TICK, Recomputed, Told, seconds

LONGEST = 600.0
"""Seconds after which a demo hangs; on a quiet machine it takes one minute."""


def processes_of(folder: Path) -> list[str]:
    """Command lines of the processes whose environment names the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def start(tmp_path: Path, *options: str) -> "subprocess.Popen[str]":
    env = {**RealGrus(tmp_path / "unused").env, "TMPDIR": str(tmp_path)}
    words = [sys.executable, "-u", "-m", "grus.cli.main", "demo", *options]
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until_it_says(process: "subprocess.Popen[str]", words: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return
    _, errors = process.communicate(timeout=LONGEST)
    pytest.fail(f"it ended ({process.returncode}) without saying {words!r}: {errors}")


@dataclass(frozen=True)
class Played:
    """A demo that came to its end, and the folder that it has left."""

    home: Path
    told: dict[str, Any]
    left: list[str]
    """Processes."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("demo")
    process = start(folder, "--keep", "-o", "json")
    said, errors = process.communicate(timeout=LONGEST)
    (home,) = folder.glob("grus-demo-*")
    assert (process.returncode, errors) == (0, f"its logs: {home}/state\n"), said
    return Played(home, json.loads(said), processes_of(folder))


def test_everything_ends_as_promised_and_nothing_is_left(played: Played) -> None:
    assert [one for one in played.told["jobs"] if not one["ok"]] == []
    assert {one["job"] for one in played.told["jobs"]} >= {
        "gang",
        "elastic",
        "notebook",
        "night-run",
        "fragile",
        "training",
    }
    assert all(one["why"] for one in played.told["jobs"])
    assert played.left == []


@pytest.fixture(scope="module")
def looked_back(played: Played) -> Iterator[tuple[dict[str, Any], Recomputed]]:
    """The report on the demo, by a server that was started on its folder, and the same worked out again."""
    grus = RealGrus(played.home)
    grus.up()
    try:
        reported = grus.json("report")
        address = json.loads((played.home / "state" / "server.json").read_text())["address"]
        with Client(address, (played.home / "token").read_text().strip()) as client:
            jobs = [
                Told(
                    job=job.model_dump(mode="json"),
                    events=[event.model_dump(mode="json") for event in client.events(job=job.id)],
                    busy=_samples(client, job.id),
                    curves=client.curves(job.id).model_dump(mode="json"),
                )
                for job in client.jobs(limit=100)
            ]
        since, until = seconds(reported["since"]), seconds(reported["until"])
        yield reported, Recomputed(since, until, 8.0, jobs)
    finally:
        grus.down()


def _samples(client: Client, job: str) -> dict[str, Any] | None:
    """Its utilisation, second by second, as it was recorded; None if nobody measured it."""
    try:
        return client.series("job", "utilisation", job, last="1h", step=1.0).model_dump(mode="json")
    except NotFound:
        return None


def close(hours: float) -> Any:
    """Moments that are looked at are a thousandth of a second apart, and up to 4 GPUs change in one."""
    return pytest.approx(hours, rel=0.005, abs=3e-6)


def test_the_report_on_the_demo_is_what_its_events_and_samples_add_up_to(
    looked_back: tuple[dict[str, Any], Recomputed],
) -> None:
    reported, again = looked_back
    assert {one["id"] for one in reported["jobs"]} == set(again.jobs)
    assert len(again.jobs) >= 7
    for one in reported["jobs"]:
        id_, held = one["id"], one["held"]
        assert held["allocated"] == close(again.allocated(id_)), one["name"]
        assert held["measured"] == close(again.measured(id_)), one["name"]
        assert (held["busy"] or 0.0) == close(again.busy(id_)), one["name"]
        assert (held["useful"] or 0.0) == close(again.useful(id_)), one["name"]
        assert one["ran"] == pytest.approx(again.ran(id_), abs=0.05), one["name"]
        assert one["waited"] == pytest.approx(again.waited(id_), abs=0.05), one["name"]
        lost = again.hours(again.jobs[id_][1].gpus * again.again(id_))
        assert held["restarted"] == close(lost), one["name"]


def test_the_pool_of_the_demo_adds_up_from_its_jobs(looked_back: tuple[dict[str, Any], Recomputed]) -> None:
    reported, again = looked_back
    whole = reported["hours"]
    assert seconds(reported["since"]) == min(
        seconds(told.job["submitted_at"]) for told, _ in again.jobs.values()
    )
    assert whole["capacity"] == close(8.0 * len(again.at) * TICK / HOUR)
    assert whole["held"]["allocated"] == close(sum(map(again.allocated, again.jobs)))
    assert whole["held"]["busy"] == close(sum(map(again.busy, again.jobs)))
    assert whole["demand"] == close(again.demand())
    stood_free = whole["waiting"] + (whole["fragmentation"] or 0.0)
    assert stood_free == close(again.free_and_wanted())
    left = whole["capacity"] - whole["held"]["allocated"] - stood_free
    assert whole["unwanted"] == pytest.approx(left)


def test_the_training_of_the_demo_yields_the_samples_that_it_reported(
    looked_back: tuple[dict[str, Any], Recomputed],
) -> None:
    reported, again = looked_back
    [row] = [one for one in reported["jobs"] if one["name"] == "training"]
    steps = again.steps(again.jobs[row["id"]][0])
    assert row["steps"] == pytest.approx(max(step for _, step, _ in steps), rel=0.05)
    assert row["unit"] == "samples"
    assert row["per_gpu_hour"] == pytest.approx(row["samples"] / row["held"]["allocated"])


def test_demand_and_supply_of_the_demo_are_what_each_moment_adds_up_to(
    looked_back: tuple[dict[str, Any], Recomputed],
) -> None:
    reported, again = looked_back
    supply = reported["elasticity"]["supply"]
    wanted, held = recomputing_scaling.wanted(again), recomputing_scaling.held(again)
    near = 1e-4
    assert supply["source"] == "jobs"
    assert supply["wanted_gpu_hours"] == pytest.approx(again.hours(wanted), abs=near)
    assert supply["held_gpu_hours"] == pytest.approx(again.hours(held), abs=near)
    unmet = np.minimum(np.maximum(wanted - held, 0.0), np.maximum(8.0 - held, 0.0))
    assert supply["unmet_gpu_hours"] == pytest.approx(again.hours(unmet), abs=near)
    assert supply["beyond_gpu_hours"] == pytest.approx(again.hours(np.maximum(wanted - 8.0, 0.0)), abs=near)


def test_resizes_and_losses_of_the_demo_are_those_of_its_events(
    looked_back: tuple[dict[str, Any], Recomputed],
) -> None:
    reported, again = looked_back
    for id_, (told, _) in again.jobs.items():
        mine = [one for one in reported["scalability"]["resizes"] if one["job"] == id_]
        live = [(one["how"], one["before"], one["after"]) for one in mine if one["how"] != "restart"]
        assert live == recomputing_scaling.resizes(told), told.job["name"]
        joins = [one["seconds"] for one in mine if one["how"] == "grow" and one["seconds"] is not None]
        assert joins == pytest.approx(recomputing_scaling.seconds_to_join(told), abs=0.005)
    shown = {one["name"]: one for one in reported["elasticity"]["jobs"]}
    tests = ("starts_below", "survives_loss", "uses_late")
    assert [shown["training"][test] for test in tests] == [True, True, True]
    assert [shown["fragile"][test] for test in tests] == [False, False, None]
    assert shown["elastic"]["starts_below"] is True
    assert (shown["training"]["lost"], shown["fragile"]["restarts"]) == (1, 1)


def test_speeds_of_the_demo_are_steps_over_seconds_between_its_reports(
    looked_back: tuple[dict[str, Any], Recomputed],
) -> None:
    reported, again = looked_back
    [row] = [one for one in reported["jobs"] if one["name"] == "training"]
    found = recomputing_scaling.speeds(again.jobs[row["id"]][0])
    told = [one for one in reported["scalability"]["speedups"] if one["jobs"] == [row["id"]]]
    sizes = {size["gpus"]: size for one in told for size in one["sizes"]}
    # On a slow machine it may not have been at any size for long enough to tell its speed there.
    assert set(sizes) >= {gpus for gpus, (steps, took) in found.items() if took > 5.1 and steps > 3}
    for gpus, size in sizes.items():
        steps, took = found[gpus]
        assert (size["steps"], size["seconds"]) == (pytest.approx(steps), pytest.approx(took, abs=0.01))
        assert size["throughput"] == pytest.approx(128 * steps / took, rel=0.005)


def test_an_interrupted_demo_cleans_up(tmp_path: Path) -> None:
    process = start(tmp_path)
    wait_until_it_says(process, "all 4 workers are up")
    assert processes_of(tmp_path) != []
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "everything that was started has been ended" in errors
    assert list(tmp_path.glob("grus-demo-*")) == []
    assert processes_of(tmp_path) == []


def test_a_demo_that_goes_wrong_says_so_and_where_the_logs_are(tmp_path: Path) -> None:
    """Its elastic job is taken away by somebody else in the middle."""
    process = start(tmp_path)
    wait_until_it_says(process, "all 4 workers are up")
    (home,) = tmp_path.glob("grus-demo-*")
    RealGrus(home)("stop", "elastic")
    said, errors = process.communicate(timeout=LONGEST)
    assert process.returncode == 1
    assert "[fail] elastic" in said
    assert f"its logs: {home}/state" in errors
    assert processes_of(tmp_path) == []
