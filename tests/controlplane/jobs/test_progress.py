"""What jobs report of themselves reaches their records, and nothing that they write can harm anybody."""

import json

import pytest

from grus.controlplane.jobs.progress import taken
from grus.model.jobs import Launch, Phase
from grus.model.worker_reports.report_lines import MOST_FIGURES, progress, read
from tests.controlplane.plane import ADMIN, Plane
from tests.scheduler.builders import a_job

NOW = 2000.0


def a_line(saved_at: object = None, **figures: object) -> str:
    return json.dumps({"at": NOW, "figures": figures, "saved_at": saved_at})


def test_finite_numbers_are_taken_and_all_else_is_left() -> None:
    line = a_line(step=3, loss=0.5, bad=float("nan"), big=10**400, text="x", flag=True, deep=[1])
    assert taken(a_job("job"), line, NOW).progress == (("step", 3.0), ("loss", 0.5))


@pytest.mark.parametrize("line", ["", "x", "[]", "3", "{}", '{"figures": 3}', "[" * 20_000, a_line()])
def test_a_line_that_says_nothing_changes_nothing(line: str) -> None:
    job = a_job("job")
    assert taken(job, line, NOW) is job


def test_the_same_again_is_no_change() -> None:
    job = taken(a_job("job"), a_line(1500.0, step=3), NOW)
    assert job.saved_at == 1500.0
    assert taken(job, a_line(1500.0, step=3), NOW) is job


@pytest.mark.parametrize("saved_at", [NOW + 1, 0, -5, 1e400, "now", True, None])
def test_a_time_that_cannot_be_is_no_checkpoint(saved_at: object) -> None:
    assert taken(a_job("job"), a_line(saved_at, step=1), NOW).saved_at is None


def test_names_and_numbers_of_figures_are_bounded() -> None:
    assert taken(a_job("job"), a_line(**{"x" * 100: 1, "a\nb": 2, "": 3}), NOW).progress == ()
    assert len(taken(a_job("job"), a_line(**{f"f{n}": n for n in range(99)}), NOW).progress) == MOST_FIGURES


def test_figures_of_a_running_job_are_on_record_within_seconds_without_an_event() -> None:
    plane = Plane()
    job = plane.submit()
    before = len(plane.services.jobs.events(ADMIN))
    plane.engine.reports(job, a_line(plane.now, step=1))
    plane.after(plane.settings.node_interval)
    found = plane.job(job)
    assert (found.progress, found.saved_at) == ((("step", 1.0),), plane.now - plane.settings.node_interval)
    plane.after(plane.settings.node_interval)
    assert plane.job(job).version == found.version
    assert len(plane.services.jobs.events(ADMIN)) == before


def test_the_last_words_of_a_worker_are_kept_when_it_ends() -> None:
    plane = Plane()
    job = plane.submit()
    plane.engine.reports(job, a_line(step=9))
    plane.do(lambda: plane.engine.exit(job))
    found = plane.job(job)
    assert found.phase is Phase.SUCCEEDED
    assert found.progress == (("step", 9.0),)


def test_only_the_first_worker_of_a_gang_is_asked() -> None:
    plane = Plane()
    job = plane.submit(gpus=2, launch=Launch.PER_GPU)
    first, second = sorted(plane.engine.alive(job))
    plane.engine.reports(first, a_line(step=1))
    plane.engine.reports(second, a_line(step=2))
    plane.after(plane.settings.node_interval)
    assert plane.job(job).progress == (("step", 1.0),)


def test_a_worker_of_a_team_tells_its_own_steps_and_seconds() -> None:
    line = json.dumps({"at": NOW, "figures": {"step": 7, "loss": 0.5}, "elastic": {"step": 8, "lap": 0.25}})
    assert progress(read(line)) == {"step": 8.0, "loss": 0.5, "step_seconds": 0.25}
    alone = json.dumps({"at": NOW, "elastic": {"step": 8, "lap": 0.25}})
    assert progress(read(alone)) == {"step": 8.0, "step_seconds": 0.25}


def test_a_worker_that_has_no_lap_yet_tells_its_figures_only() -> None:
    line = json.dumps({"at": NOW, "figures": {"loss": 0.5}, "elastic": {"step": 0, "lap": None}})
    assert progress(read(line)) == {"loss": 0.5}
