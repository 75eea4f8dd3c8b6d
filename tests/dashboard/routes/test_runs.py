"""The pages of runs: what is kept is shown to those who might see its job, and two are told apart."""

import html
from dataclasses import replace

from grus.model.artifacts import Artifact
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.interfaces import RESULTS
from grus.model.jobs import JobType, Phase
from grus.model.results import Metric, Result
from tests.server.house import House

WROTE = "<script>alert(1)</script>&'\""
ONE = Result(
    job=JobId("jone"),
    name="resnet",
    user=UserName("ada"),
    queue=QueueName("vision"),
    type=JobType.TRAIN,
    phase=Phase.SUCCEEDED,
    submitted_at=1000.0,
    started_at=1010.0,
    ended_at=1100.0,
    seconds=90.0,
    gpu_seconds=5400.0,
    command=("python", "train.py"),
    params=(("lr", 0.01), ("width", 64)),
    metrics=(Metric("loss", 0.25, 0.2, 2.0), Metric("step", 100.0, 1.0, 100.0)),
    code="c0de" * 16,
    outputs=(Artifact("model", "d1ge57" * 10, 2_000_000),),
)
TWO = replace(ONE, job=JobId("jtwo"), ended_at=1200.0, params=(("lr", 0.1), ("width", 64)))


def keep(house: House, *runs: Result) -> None:
    for run in runs:
        house.store.put(RESULTS, run).result()


def test_the_list_has_what_a_run_was_given_and_what_it_reached_last_ended_first(house: House) -> None:
    keep(house, ONE, TWO)
    text = house.ask("GET", "/runs", "ada").text
    assert text.index("jtwo") < text.index("jone")
    for shown in ("resnet", "1.5", "0.01", "0.25", "c0dec0dec0de"):
        assert shown in text, shown
    assert "d1ge57" not in text


def test_a_long_list_goes_on_where_the_address_says(house: House) -> None:
    keep(house, *(replace(ONE, job=JobId(f"j{at:03}"), ended_at=1000.0 + at) for at in range(101)))
    first = house.ask("GET", "/runs?name=resnet", "ada").text
    assert first.count('name="run"') == 100
    assert "/runs?name=resnet&amp;after=j001" in first
    rest = house.ask("GET", "/runs?name=resnet&after=j001", "ada").text
    assert rest.count('name="run"') == 1
    assert "Earlier runs" not in rest


def test_the_list_is_of_what_the_address_asks_for(house: House) -> None:
    keep(house, ONE, replace(TWO, name="bert"))
    assert "jtwo" not in house.ask("GET", "/runs?name=resnet", "ada").text
    assert "No run matches" in house.ask("GET", "/runs?queue=speech", "admin").text
    assert "No run matches" in house.ask("GET", "/runs?mine=true", "admin").text


def test_one_run_shows_all_that_is_kept_and_others_of_its_name(house: House) -> None:
    keep(house, ONE, TWO)
    text = html.unescape(house.ask("GET", "/runs/jone", "ada").text)
    for shown in ("python train.py", "d1ge57" * 10, "2MB", "c0de" * 16, "/runs/compare?run=jtwo&run=jone"):
        assert shown in text, shown


def test_two_runs_stand_side_by_side_and_what_differs_is_marked(house: House) -> None:
    keep(house, ONE, TWO)
    text = house.ask("GET", "/runs/compare?run=jone&run=jtwo", "ada").text
    row = text[text.index(">lr <span") :]
    assert row.index("0.01") < row.index("0.1<")
    assert text.count('title="differs"') == 1
    refused = house.ask("GET", "/runs/compare?run=jone", "ada")
    assert refused.status_code == 422


def test_the_run_of_a_job_that_one_may_not_see_is_not_there(house: House) -> None:
    keep(house, ONE, TWO)
    assert "jone" not in house.ask("GET", "/runs", "eve").text
    for path in ("/runs/jone", "/runs/compare?run=jone&run=jtwo", "/runs/jnothing"):
        assert house.ask("GET", path, "eve").status_code == 404


def test_what_people_wrote_is_text_on_every_page_of_runs(house: House) -> None:
    evil = replace(
        ONE,
        name=WROTE,
        reason=WROTE,
        command=(WROTE,),
        params=((WROTE, WROTE),),
        metrics=(Metric(WROTE, 1.0, 1.0, 1.0),),
        outputs=(Artifact(WROTE, WROTE, 1),),
    )
    keep(house, evil, replace(evil, job=JobId("jtwo")))
    for path in ("/runs", "/runs/jone", "/runs/compare?run=jone&run=jtwo"):
        text = house.ask("GET", path, "ada").text
        assert "<script>alert" not in text
        assert WROTE in html.unescape(text)
