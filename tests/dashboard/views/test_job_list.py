"""The job list as values: what lines say, what addresses mean, and that only changes travel."""

from dataclasses import replace

import pytest
from starlette.datastructures import QueryParams

from grus.dashboard.live_state.job_index import Board, JobFilter, brief_of
from grus.dashboard.views.job_list import MOST_ROWS, PAGE, ClientRows, difference, row_of, shown_of, wanted_of
from grus.model.identifiers import DeviceId, NodeId
from grus.model.jobs import Job, Phase, Seat
from grus.model.resources import GPU
from tests.scheduler.builders import a_job


def seats(count: int) -> tuple[Seat, ...]:
    return tuple(Seat("worker", n, NodeId("n"), (DeviceId(f"g{n}"),), GPU) for n in range(count))


def shown(*jobs: Job, wanted: JobFilter | None = None) -> ClientRows:
    board = Board()
    board.take(jobs)
    board.filled()
    return shown_of(board.look(wanted or JobFilter(), lambda _, __: True), board.full)


@pytest.mark.parametrize(
    ("held", "asked", "text"),
    [(0, "2..8", "2..8"), (3, "2..8", "3 of 2..8"), (2, 2, "2"), (0, 0.5, "0.5")],
)
def test_gpus_are_those_held_and_what_is_asked_for_where_that_differs(
    held: int, asked: int | float | str, text: str
) -> None:
    row = row_of(brief_of(replace(a_job("one", gpus=asked), seats=seats(held))))
    assert (row["gpus"], row["holds"]) == (text, held > 0)


def test_time_counts_from_the_start_or_the_submission_and_stands_still_at_the_end() -> None:
    job = a_job("one", submitted_at=100.0)
    assert row_of(brief_of(job))["since"] == 100.0
    runs = replace(job, phase=Phase.RUNNING, first_started_at=130.0)
    assert row_of(brief_of(runs))["since"] == 130.0
    ended = row_of(brief_of(replace(runs, phase=Phase.SUCCEEDED, ended_at=190.0)))
    assert (ended["since"], ended["lasted"]) == (None, 60.0)
    never = row_of(brief_of(replace(job, phase=Phase.STOPPED, ended_at=190.0)))
    assert (never["since"], never["lasted"]) == (None, None)


def test_of_one_that_waits_it_is_told_by_when_it_starts() -> None:
    board = Board()
    board.take([a_job("waits"), replace(a_job("runs"), phase=Phase.RUNNING)])
    board.filled()
    found = shown_of(board.look(JobFilter(), lambda _, __: True), True, lambda _: 1234.4)
    assert {id_: row["starts"] for id_, row in found.rows.items()} == {"waits": 1234, "runs": None}


def test_an_address_says_what_is_wanted() -> None:
    query = QueryParams(
        "q=res+ada&state=running&state=failed&queue=vision&user=ada&type=dev&sort=name&rows=300"
    )
    assert wanted_of(query) == JobFilter(
        text="res ada",
        states=frozenset({"running", "failed"}),
        queue="vision",
        user="ada",
        type="dev",
        sort="name",
        down=False,
        limit=300,
    )
    assert wanted_of(QueryParams("")) == JobFilter()
    assert wanted_of(QueryParams("sort=gpus&order=up")).down is False


@pytest.mark.parametrize(
    "query", ["sort=__class__", "state=gone", "rows=-5", "rows=x", "rows=²", "order=sideways"]
)
def test_words_that_mean_nothing_are_read_over(query: str) -> None:
    assert wanted_of(QueryParams(query)) == JobFilter()


def test_no_address_asks_for_more_lines_than_a_list_has() -> None:
    assert wanted_of(QueryParams("rows=99999999")).limit == MOST_ROWS
    assert wanted_of(QueryParams("rows=1")).limit == PAGE


def test_that_nothing_matches_is_told_too() -> None:
    assert difference(ClientRows(), shown())["order"] == ()


def test_only_what_changed_travels() -> None:
    one, two = (replace(a_job(name, submitted_at=at), version=1) for name, at in (("one", 1.0), ("two", 2.0)))
    before = shown(one, two)
    assert set(difference(ClientRows(), before)) == {"rows", "order", "figures"}
    assert difference(before, shown(one, two)) == {}
    said = difference(before, shown(one, replace(two, reason="it is next")))
    assert [row["why"] for row in said.pop("rows")] == ["it is next"]  # type: ignore[attr-defined]  # a list of rows
    assert said == {}
    three = replace(a_job("three", submitted_at=3.0), version=1)
    said = difference(before, shown(one, two, three))
    assert said["order"] == ("three", "two", "one")
    assert [row["id"] for row in said["rows"]] == ["three"]  # type: ignore[attr-defined]  # a list of rows
