"""`grus split --or-wait`: the ways of a training, when each would end, and one recommended."""

import json
from pathlib import Path
from typing import Any

import pytest

from grus.api.wire_types.job import EtaOut, PlanOut
from grus.cli.whatif.split_or_wait import alternatives, types
from grus.estimation import estimate_subprocess
from grus.simulator.cluster_spec import parse_nodes
from tests.cli.conftest import Grus
from tests.cli.fake import FakeClient

POOL = "1x2xRTX3060+1x1xRTX3090"


def an_option(how: str, type: str, gpus: int, seconds: float, note: str = "") -> dict[str, Any]:
    return {
        "how": how,
        "type": type,
        "gpus": gpus,
        "share": 1.0,
        "memory": 10**10,
        "seconds": seconds,
        "note": note,
    }


OPTIONS = [
    an_option("whole", "RTX3090", 1, 0.5),
    an_option("smaller batch", "RTX3060", 1, 2.0, "2 parts of 32"),
    an_option("split", "RTX3060", 2, 1.0, "8 micro-batches, 1f1b"),
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    seen: dict[str, Any] = {"options": OPTIONS, "notes": []}

    def run(function: str, arguments: dict[str, Any], **_: Any) -> Any:
        assert function == "grus.partition.options:find"
        seen["arguments"] = arguments
        return {"batch": 64, "options": seen["options"], "notes": seen["notes"]}

    monkeypatch.setattr(estimate_subprocess, "run", run)
    return seen


def on_the_large_one(length: int) -> str:
    """The RTX 3090 is taken for so long, and the small ones are free."""
    return f"submit,duration,gpus\n0,{length},1\n"


def test_on_an_empty_pool_a_whole_gpu_is_recommended(grus: Grus, asked: dict[str, Any]) -> None:
    found = grus("split", "train.py:make", "--or-wait", "--hours", "2", "--nodes", POOL)
    assert found.exit_code == 0, found.stderr
    heading, first, *_ = found.stdout.splitlines()
    assert heading.split()[:3] == ["WAY", "MEMORY", "STARTS"]
    assert first.startswith("a whole GPU")
    assert "A whole GPU: it ends after 2.0h" in found.stdout
    assert [one["gpu"]["name"] for one in asked["arguments"]["pool"]] == ["RTX3090", "RTX3060"]
    assert [one["most"] for one in asked["arguments"]["pool"]] == [1, 2]


def test_on_a_busy_pool_it_is_split(grus: Grus, asked: dict[str, Any]) -> None:
    Path("jobs.csv").write_text(on_the_large_one(100_000))
    words = ("--or-wait", "--hours", "2", "--nodes", POOL, "--jobs", "jobs.csv", "-o", "json")
    found = json.loads(grus("split", "train.py:make", *words).stdout)
    assert found["recommended"] == "split over 2 RTX3060"
    ends = {way["name"]: way["end"] for way in found["ways"]}
    assert ends["split over 2 RTX3060"] == pytest.approx(4 * 3600, abs=60)
    assert ends["a whole GPU"] > 50_000


def test_the_server_is_asked_for_every_way(
    grus: Grus, asked: dict[str, Any], client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def plan(job: Any) -> PlanOut:
        seen.append((job.resources.gpu, job.launch))
        if "RTX3090" in str(job.resources.gpu):
            late, later = "2999-01-01T00:00:00Z", "2999-01-02T00:00:00Z"
            eta = EtaOut(at=late, start_p50=late, start_p90=later)
            return PlanOut(fits=True, starts="later", sentence="waits", eta=eta)
        if job.resources.gpu == "RTX3060:1":
            return PlanOut(fits=False, starts="never", sentence="no such GPU")
        return PlanOut(fits=True, starts="now", sentence="starts")

    monkeypatch.setattr(client, "plan", plan)
    found = grus("split", "train.py:make", "--or-wait", "--hours", "1", "-o", "json")
    assert found.exit_code == 0, found.stderr
    told = json.loads(found.stdout)
    assert seen == [("RTX3090:1", "per-gpu"), ("RTX3060:1", "per-gpu"), ("RTX3060:2", "per-gpu")]
    assert told["recommended"] == "split over 2 RTX3060"
    assert [way["impossible"] for way in told["ways"]] == ["", "", "no such GPU"]


def test_what_is_missing_or_wrong_is_told_at_once(grus: Grus, asked: dict[str, Any]) -> None:
    found = grus("split", "train.py:make", "--or-wait", "--jobs", "jobs.csv", "--limit", "soon")
    assert found.exit_code == 2
    assert "3 mistakes" in found.stderr
    assert "how many hours the training takes" in found.stderr
    assert "arguments" not in asked


def test_a_training_without_any_way_is_told_so(grus: Grus, asked: dict[str, Any]) -> None:
    asked["options"], asked["notes"] = [], ["its path depends on its data"]
    found = grus("split", "train.py:make", "--or-wait", "--hours", "1", "--nodes", POOL)
    assert found.exit_code == 3
    assert "no split: its path depends on its data" in found.stderr
    assert "a smaller --batch" in found.stderr


def test_whole_gpus_of_several_types_are_one_way() -> None:
    wholes = [an_option("whole", "H100", 1, 0.1), an_option("whole", "RTX3090", 1, 0.4)]
    (only,) = alternatives(wholes)
    assert only.speeds == (("H100", 1.0), ("RTX3090", 0.25))


def test_types_are_those_of_the_pool_with_its_own_memory() -> None:
    (one,) = types(parse_nodes("2x8xA100:40GB"))
    assert (one["gpu"]["name"], one["gpu"]["memory"], one["most"]) == ("A100", 40 * 10**9, 4)
