"""The History page: the report's figures in words, of what the visitor sees."""

import pytest

from grus.api.wire_types.report import HeldOut, HoursOut, ReportOut
from grus.dashboard.routes.usage_history import told
from grus.dashboard.views.usage_history import charts, in_seconds, tiles, use, view, waste
from grus.dashboard.whatif.simulation_runs import Play, SimulationState
from grus.model.errors import Mistake
from grus.model.identifiers import UserName
from grus.reports.text_tables import GpuTime
from tests.server.house import House
from tests.server.routes.test_reports import ran

NOON, LATER = "2026-01-05T12:00:00Z", "2026-01-05T13:00:00Z"


HOURS = GpuTime.of(8.0)


def an_hour(held: HeldOut, **more: float) -> HoursOut:
    given = {"waiting": 1.0, "unwanted": 3.0, **more}
    return HoursOut(since=NOON, until=LATER, capacity=8.0, held=held, demand=5.0, **given)


HALF = HeldOut(allocated=4.0, measured=2.0, busy=1.0, useful=0.5, idle=0.75, over_asking=0.25)
BLIND = HeldOut(allocated=4.0, measured=0.0)


def test_tiles_tell_each_figure_and_the_part_that_it_is() -> None:
    found = tiles(an_hour(HALF), HOURS)
    assert found["allocated"] == {"figure": "4.00", "words": "50% of capacity", "part": 50}
    assert found["busy"] == {"figure": "1.00", "words": "50% of 2.00 measured", "part": 50}
    assert tiles(an_hour(BLIND), HOURS)["useful"] == {"figure": "–", "words": "not measured", "part": None}


def test_every_cause_of_waste_has_a_row_and_what_is_not_known_is_a_dash() -> None:
    rows = {str(row["name"]): row for row in waste(an_hour(HALF), HOURS)}
    assert (rows["Over-asking"]["hours"], rows["Waiting"]["percent"]) == ("0.25", "12%")
    assert rows["Fragmentation"]["hours"] == "–"
    assert {row["hours"] for row in waste(an_hour(BLIND), HOURS) if row["name"] == "Idle while held"} == {"–"}


def test_what_was_not_measured_is_drawn_as_if_it_was_like_the_rest() -> None:
    found = use([an_hour(HALF)])["data"]
    assert isinstance(found, list)
    lines = {line["name"]: line["y"] for line in found}
    assert lines == {"wanted": [0.625], "allocated": [0.5], "busy": [0.25], "useful": [0.125]}


def test_nothing_measured_is_not_drawn_at_all() -> None:
    found = use([an_hour(BLIND)])["data"]
    assert isinstance(found, list)
    assert [line["name"] for line in found] == ["wanted", "allocated"]


def test_moments_of_charts_are_numbers_for_the_readers_time_zone() -> None:
    found = in_seconds({"data": [{"x": [NOON, 5.0]}], "layout": {}})["data"]
    assert found == [{"x": [1767614400.0, 5.0]}]


def test_a_time_of_which_nothing_is_known_says_so_in_place_of_charts() -> None:
    nothing = HoursOut(since=NOON, until=NOON, capacity=0.0, held=BLIND, demand=0.0)
    found = charts(ReportOut(since=NOON, until=NOON, gpus=0, whole=True, hours=nothing))
    assert all("missing" in figure for figure in found.values())


def test_the_figures_of_the_page_are_those_of_the_report(house: House) -> None:
    job = ran(house)
    found = house.ask("GET", "/history.json?last=1d", "ada").json()
    reported = house.ask("GET", "/v1/report?last=1d", "ada").json()
    assert found["unit"] == "GPU-minutes"
    assert found["tiles"]["allocated"]["figure"] == f"{60 * reported['hours']['held']['allocated']:.2f}"
    assert [row["id"] for row in found["jobs"]] == [job]
    assert set(found["charts"]) == {"use", "parts", "where"}
    assert found["charts"]["where"]["layout"]["xaxis"]["title"]["text"] == found["unit"]
    assert found == view(ReportOut.model_validate(house.ask("GET", "/v1/report?last=1d", "ada").json())) | {
        "notes": found["notes"]
    }


def test_a_stranger_sees_no_job_and_no_queue_of_others(house: House) -> None:
    ran(house)
    assert "topsecret" not in house.ask("GET", "/history.json", "eve").text
    page = house.ask("GET", "/history", "eve", headers={"Accept": "text/html"}).text
    assert "<option>vision</option>" not in page
    assert "<option>speech</option>" in page
    assert house.ask("GET", "/history.json?queue=vision", "eve").status_code == 404


@pytest.mark.parametrize("query", ["last=2d", "last=", f"queue={'x' * 300}"])
def test_what_cannot_be_asked_is_refused(house: House, query: str) -> None:
    assert house.ask("GET", f"/history.json?{query}", "ada").status_code == 422


def test_a_simulation_is_told_with_its_stage_its_sentences_or_what_is_wrong() -> None:
    play = Play(number=1, user=UserName("ada"), began=0.0, stage=SimulationState.RUNNING, done=3, of=9)
    assert (told(play)["under_way"], told(play)["done"], told(play)["of"]) == (True, 3, 9)
    done = Play(
        number=1,
        user=UserName("ada"),
        began=0.0,
        stage=SimulationState.DONE,
        answer=b'{"title": "t", "sentences": ["Yes."], "notes": [], "charts": [1]}',
    )
    assert told(done)["answer"] == {"title": "t", "sentences": ["Yes."], "notes": []}
    wrong = (Mistake("history", "has no job"),)
    refused = Play(number=1, user=UserName("ada"), began=0.0, stage=SimulationState.REFUSED, mistakes=wrong)
    assert told(refused)["text"] == "history has no job"
    assert told(None)["stage"] == ""


def asked(house: House, who: str) -> dict[str, object]:
    """The question whether to buy, asked and waited for."""
    answer = house.ask("POST", "/history/buy?last=1d", who)
    assert answer.status_code == 200, answer.text
    run = house.app.state.plays._now
    if run is not None:
        run.thread.join(300)
    found: dict[str, object] = house.ask("GET", "/history/buy", who).json()
    return found


def test_without_a_job_that_ended_there_is_nothing_to_play(house: House) -> None:
    found = asked(house, "ada")
    assert (found["stage"], found["answer"]) == ("refused", None)
    assert "no job that was submitted and ended" in str(found["text"])
