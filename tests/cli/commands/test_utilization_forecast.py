"""The verb `forecast`: a table for people, JSON for programs, an honest word where there is none."""

import json

from grus.api.wire_types.forecast import AheadOut, ForecastOut
from tests.cli.conftest import Grus
from tests.cli.fake import FakeClient, a_job

AHEAD = (
    AheadOut(at="2026-01-05T10:00:00Z", median=3.0, low=2.0, high=4.0),
    AheadOut(at="2026-01-05T10:05:00Z", median=0.0, low=0.0, high=2.0),
)


def a_forecast(**more: object) -> ForecastOut:
    given = {"of": "pool", "measure": "demand", "reach": "hour", "step": 300.0, "ahead": AHEAD, **more}
    return ForecastOut.model_validate({"basis": "from 8 h of measurements", **given})


def test_without_words_it_is_the_pools_next_hour(grus: Grus, client: FakeClient) -> None:
    client.foretold = a_forecast()
    lines = grus("forecast").stdout.splitlines()
    assert lines[0] == "the pool, demand, next hour, from 8 h of measurements."
    assert lines[1].split()[:2] == ["FROM", "EXPECTED"]
    assert "3         2 – 4" in lines[2]
    assert client.asked[-1] == ("forecast", "pool", "", "hour")


def test_parts_are_percents(grus: Grus, client: FakeClient) -> None:
    part = AheadOut(at="2026-01-05T10:00:00Z", median=0.5, low=0.25, high=1.0)
    client.foretold = a_forecast(of="gpu", name="GPU-0", measure="utilisation", ahead=(part,))
    gpu = client.nodes()[0].gpus[0].id
    assert "25% – 100%" in grus("forecast", "gpu", gpu, "--day").stdout
    assert client.asked[-1] == ("forecast", "gpu", gpu, "day")


def test_where_there_is_none_it_says_what_is_missing(grus: Grus, client: FakeClient) -> None:
    client.foretold = a_forecast(ahead=(), missing="3 h of measurements are needed")
    result = grus("forecast")
    assert result.exit_code == 0
    assert result.stdout == "the pool, demand, next hour: no forecast yet: 3 h of measurements are needed.\n"


def test_a_job_is_meant_by_its_name_and_its_end_is_told(grus: Grus, client: FakeClient) -> None:
    client.known = [a_job("j0000000001", name="resnet")]
    client.foretold = a_forecast(of="job", name="j0000000001", ends="2026-01-05T10:02:00Z")
    assert "expected to end about" in grus("forecast", "job", "resnet").stdout
    assert client.asked[-1] == ("forecast", "job", "j0000000001", "hour")


def test_json_is_what_the_server_said(grus: Grus, client: FakeClient) -> None:
    client.foretold = a_forecast()
    assert json.loads(grus("forecast", "-o", "json").stdout) == a_forecast().model_dump(mode="json")


def test_what_is_not_named_or_not_there_is_refused(grus: Grus, client: FakeClient) -> None:
    assert grus("forecast", "queue").exit_code == 2
    assert grus("forecast", "gpu", "moon").exit_code == 4
    assert grus("forecast", "gpu", "GPU").exit_code == 2
    assert grus("forecast", "moon").exit_code == 2
