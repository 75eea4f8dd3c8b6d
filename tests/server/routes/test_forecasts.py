"""Forecasts over HTTP: from what was recorded, honest about what is missing, and only of what one may see."""

from typing import Any

import pytest

from grus.model.identifiers import DeviceId, NodeId
from grus.telemetry.samples import Measure, Sample, Subject
from grus.telemetry.tsdb import POOL, of_queue
from tests.server.house import House

GPU_0 = Subject(NodeId("node-0"), DeviceId("node-0/gpu-0"))
HOUR = 3600.0


def record(house: House, subject: Subject, measure: Measure, hours: float, busy: float = 4.0) -> None:
    """Half an hour busy, half an hour at rest, a value a minute, up to now."""
    begin = house.engine.now
    for minute in range(round(60 * hours)):
        house.engine.now = begin + 60.0 * minute + 1
        value = busy if minute % 60 < 30 else 0.0
        house.watching.recorder.add([Sample(subject, house.engine.now, {measure: value})])


def ask(house: House, question: str, who: str = "admin") -> dict[str, Any]:
    response = house.ask("GET", f"/v1/forecast?{question}", who)
    assert response.status_code == 200, response.text
    return dict(response.json())


def test_without_enough_it_says_how_much_is_missing(house: House) -> None:
    record(house, POOL, Measure.DEMAND, 0.5)
    found = ask(house, "of=pool")
    assert found["ahead"] == []
    assert "3 h of measurements are needed" in found["missing"]
    assert "3 d of measurements are needed" in ask(house, "of=pool&reach=day")["missing"]


def test_of_what_was_never_measured_there_is_none(house: House) -> None:
    assert ask(house, "of=gpu&name=node-0/gpu-3")["missing"] == "nothing was measured of it so far"
    job = house.submit(resources={"gpu": 1})
    assert ask(house, f"of=job&name={job}", "ada")["missing"] == "nothing was measured of it so far"


@pytest.mark.parametrize(
    ("subject", "measure", "question"),
    [
        (POOL, Measure.DEMAND, "of=pool"),
        (of_queue("vision"), Measure.DEMAND, "of=queue&name=vision"),  # type: ignore[arg-type]  # a name
        (GPU_0, Measure.POWER, "of=gpu&name=node-0/gpu-0&measure=power"),
    ],
)
def test_with_enough_the_next_hour_is_told_in_steps_of_five_minutes(
    house: House, subject: Subject, measure: Measure, question: str
) -> None:
    record(house, subject, measure, 8)
    found = ask(house, question)
    assert found["missing"] == ""
    assert (len(found["ahead"]), found["step"]) == (12, 300.0)
    assert found["basis"].startswith("from 8 h")
    for one in found["ahead"]:
        assert 0 <= one["low"] <= one["median"] <= one["high"]


def test_a_part_of_a_whole_is_never_more_than_all_of_it(house: House) -> None:
    record(house, GPU_0, Measure.UTILISATION, 6, busy=1.0)
    found = ask(house, "of=gpu&name=node-0/gpu-0")
    assert found["measure"] == "utilisation"
    assert max(one["high"] for one in found["ahead"]) == pytest.approx(1.0)


def test_the_same_question_has_the_same_answer_until_a_step_is_over(house: House) -> None:
    record(house, POOL, Measure.DEMAND, 5)
    house.engine.now = house.engine.now // 300 * 300 + 10
    first = ask(house, "of=pool")
    house.engine.now += 100
    assert ask(house, "of=pool") == first
    house.engine.now += 300
    assert ask(house, "of=pool")["ahead"][0]["at"] > first["ahead"][0]["at"]


@pytest.mark.parametrize(
    ("question", "status"),
    [
        ("of=queue&name=vision", 404),
        ("of=queue&name=nowhere", 404),
        ("of=gpu&name=node-0/gpu-9", 404),
        ("of=job&name=j0000000000", 404),
        ("of=node&name=nowhere", 404),
        ("of=worker&name=nobody", 404),
        ("of=queue", 422),
        ("of=moon", 422),
        ("of=pool&reach=year", 422),
        ("of=pool&measure=speed", 422),
    ],
)
def test_what_is_not_there_and_what_one_may_not_see_has_no_forecast(
    house: House, question: str, status: int
) -> None:
    assert house.ask("GET", f"/v1/forecast?{question}", "eve").status_code == status


def test_a_job_that_has_ended_has_no_future(house: House) -> None:
    job = house.submit(resources={"gpu": 1})
    assert house.ask("POST", f"/v1/jobs/{job}/stop", "ada").status_code == 200
    house.settle()
    response = house.ask("GET", f"/v1/forecast?of=job&name={job}", "ada")
    assert response.status_code == 409
    assert "has ended" in response.text
