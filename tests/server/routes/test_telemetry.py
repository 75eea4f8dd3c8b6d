"""Telemetry over HTTP: everybody sees the GPUs, each only the figures of jobs and queues that are theirs."""

from typing import Any

import pytest

from grus.model.identifiers import WorkerId
from grus.model.interfaces import Usage
from tests.server.house import House


def work(house: House, cores: float, rounds: int = 3) -> None:
    """Let every worker work for some seconds, and measure it."""
    for _ in range(rounds):
        house.engine.now += 1.0
        spent = cores * (house.engine.now - 1_700_000_000)
        workers = tuple(house.engine.alive())
        house.engine.usage = lambda: tuple(use(one, house.engine.now, spent) for one in workers)  # type: ignore[method-assign]  # measured by hand  # noqa: B023 - called before the next round
        house.measure()


def use(worker: WorkerId, at: float, spent: float) -> Usage:
    return Usage(worker=worker, at=at, cpu_seconds=spent, memory=1 << 20, gpu_memory=1 << 20)


def figures(house: House, who: str = "admin") -> list[dict[str, Any]]:
    response = house.ask("GET", "/v1/telemetry", who)
    assert response.status_code == 200, response.text
    return list(response.json()["figures"])


def test_the_newest_figures_of_gpus_and_of_workers_that_one_sees(house: House) -> None:
    job = house.submit(resources={"gpu": 1})
    work(house, cores=0.5)
    of_gpus = {one["gpu"]: one["values"] for one in figures(house) if one["gpu"]}
    assert sorted(of_gpus) == [f"node-0/gpu-{i}" for i in range(4)]
    assert sorted(values["utilisation"] for values in of_gpus.values()) == [0.0, 0.0, 0.0, 0.5]
    [worker] = [one for one in figures(house, "ada") if one["worker"]]
    assert worker["job"] == job
    assert worker["values"]["cpu"] == pytest.approx(0.5)
    assert not [one for one in figures(house, "eve") if one["worker"]]
    assert len([one for one in figures(house, "eve") if one["gpu"]]) == 4


def test_what_cannot_be_seen_at_this_rate_is_stated(house: House) -> None:
    told = house.ask("GET", "/v1/telemetry").json()
    assert (told["every"], told["shortest_period"]) == (1.0, 2.0)
    assert told["trouble"] == ""


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("of=gpu&name=node-0/gpu-0&measure=utilisation", 0.5),
        ("of=job&name={job}&measure=cpu", 1.0),
        ("of=worker&name={job}.1.worker.0.1&measure=cpu", 0.5),
        ("of=queue&name=vision&measure=held", 2.0),
        ("of=pool&measure=capacity", 4.0),
    ],
)
def test_the_past_of_each_kind_of_thing_can_be_read(house: House, question: str, value: float) -> None:
    job = house.submit(resources={"gpu": 2}, launch="per-gpu")
    work(house, cores=0.5)
    response = house.ask("GET", "/v1/telemetry/series?last=1m&step=1&" + question.format(job=job))
    assert response.status_code == 200, response.text
    found = response.json()
    assert found["step"] == 1.0
    assert [one for one in found["values"] if one is not None][-1] == pytest.approx(value)
    assert None in found["values"]


@pytest.mark.parametrize(
    "question",
    [
        "of=job&name={job}&measure=cpu",
        "of=worker&name={job}.1.worker.0.1&measure=cpu",
        "of=queue&name=vision&measure=held",
    ],
)
def test_what_one_may_not_see_is_not_there(house: House, question: str) -> None:
    job = house.submit(resources={"gpu": 1})
    work(house, cores=0.5)
    asked = "/v1/telemetry/series?" + question.format(job=job)
    assert house.ask("GET", asked, "ada").status_code == 200
    refused = house.ask("GET", asked, "eve")
    assert refused.status_code == 404
    assert "topsecret" not in refused.text


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ("of=pool&measure=speed", "measure"),
        ("of=moon&measure=held", "of"),
        ("of=pool&measure=held&last=soon", "last"),
        ("of=pool&measure=held&last=0s", "last"),
        ("of=pool&measure=held&until=yesterday", "until"),
        ("of=pool&measure=held&step=-1", "step"),
        ("of=pool&measure=held&step=0.001&last=30d", "step"),
        ("of=pool&measure=held&step=nan", "step"),
    ],
)
def test_a_wrong_question_is_refused_with_its_field(house: House, question: str, field: str) -> None:
    work(house, cores=0.5)
    response = house.ask("GET", f"/v1/telemetry/series?{question}")
    assert response.status_code == 422, response.text[:500]
    assert field in response.json()["error"]["mistakes"][0]["field"]


def test_metrics_tell_what_gpus_show_and_what_queues_use_but_never_of_jobs(house: House) -> None:
    job = house.submit(resources={"gpu": 1})
    work(house, cores=0.5)
    text = house.ask("GET", "/metrics").text
    assert 'grus_device_utilisation_ratio{device="node-0/gpu-0",instance="",node="node-0"} 0.5' in text
    assert 'grus_queue_cpu_cores{queue="vision"} 0.5' in text
    assert "grus_device_kind{" in text
    assert job not in text
    house.engine.now += 3600
    assert "grus_device_utilisation_ratio{" not in house.ask("GET", "/metrics").text
