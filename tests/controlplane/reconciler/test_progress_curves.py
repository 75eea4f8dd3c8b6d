"""What jobs report is on record as curves: all of their lives, also over restarts, thinned evenly."""

import json
from dataclasses import replace

import pytest

from grus.controlplane.reconciler.progress_curves import CurveKeeper
from grus.model.errors import NotFound
from grus.model.identifiers import JobId, UserName
from grus.model.interfaces import REPORTS, User
from grus.model.jobs import Job
from grus.model.metrics_history import MOST_POINTS, Reported
from grus.store.memory import MemoryStore
from tests.controlplane.plane import ADMIN, ANN, Plane
from tests.controlplane.speed.test_throughput_observations import running
from tests.store.builders import an_event, done


def a_line(at: float, **figures: float) -> str:
    return json.dumps({"at": at, "figures": figures})


class Kept:
    """A keeper of the reports of one job that runs."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.job: Job = running("job", 2)
        done(self.store.create(self.job, an_event(self.job)))
        self.keeper = CurveKeeper(self.store)

    def say(self, *steps: int, at: float = 1000.0) -> "Kept":
        for step in steps:
            self.keeper.hear(self.job, a_line(at + step, step=step), at + step)
        self.keeper.write()
        return self

    @property
    def kept(self) -> list[Reported]:
        return self.store.find(REPORTS, job=self.job.id)

    @property
    def steps(self) -> list[float | None]:
        return [one.figure("step") for one in self.kept]


def test_each_new_line_is_kept_once_with_its_time_attempt_and_size() -> None:
    kept = Kept().say(1, 2, 2, 2, 3)
    assert kept.steps == [1.0, 2.0, 3.0]
    assert [(one.number, one.at, one.attempt, one.gpus) for one in kept.kept][-1] == (2, 1003.0, 1, 2_000_000)


def test_lines_without_figures_or_sense_are_not_kept() -> None:
    kept = Kept()
    for line in ("", "{", json.dumps({"at": 1.0}), json.dumps({"figures": {"loss": "low"}})):
        kept.keeper.hear(kept.job, line, 1000.0)
    kept.keeper.write()
    assert kept.kept == []


def test_a_line_from_the_future_is_of_now() -> None:
    kept = Kept()
    kept.keeper.hear(kept.job, a_line(9e9, step=1), 1000.0)
    kept.keeper.write()
    assert [one.at for one in kept.kept] == [1000.0]


def test_a_long_job_keeps_every_second_report_then_every_fourth() -> None:
    kept = Kept().say(*range(3 * MOST_POINTS))
    assert len(kept.kept) <= MOST_POINTS + 1
    assert kept.steps[:3] == [0.0, 4.0, 8.0]
    assert kept.steps[-3:] == [2988.0, 2992.0, 2996.0]


def test_the_last_words_are_kept_whatever_the_stride() -> None:
    kept = Kept().say(*range(MOST_POINTS + 2))
    assert kept.steps[-1] == MOST_POINTS
    kept.keeper.hear(kept.job, a_line(5000.0, step=MOST_POINTS + 1), 5000.0, last=True)
    kept.keeper.hear(kept.job, a_line(5000.0, step=MOST_POINTS + 1), 5000.0, last=True)
    kept.keeper.write()
    assert kept.steps[-1] == MOST_POINTS + 1
    assert len({one.number for one in kept.kept}) == len(kept.kept)


def test_another_server_goes_on_counting_where_the_last_one_was() -> None:
    kept = Kept().say(1, 2)
    kept.job = replace(kept.job, progress=(("step", 2.0),))  # as its record says
    kept.keeper = CurveKeeper(kept.store)
    kept.say(2, 3)
    assert [(one.number, one.figure("step")) for one in kept.kept] == [(0, 1.0), (1, 2.0), (2, 3.0)]


def test_what_a_running_job_reports_is_served_as_curves_with_its_throughput() -> None:
    plane = Plane()
    job = plane.submit("train", gpus=1)
    plane.after(1)
    for step in (10, 20):
        plane.engine.reports(job, a_line(plane.now, step=step, batch=32, loss=1 / step))
        plane.after(5)
    found = plane.services.outputs.curves(ANN, job)
    assert [curve.name for curve in found.curves] == ["batch", "loss", "step", "throughput"]
    assert [point.value for point in found.of("loss")] == [0.1, 0.05]
    [speed] = found.of("throughput")
    first, second = found.of("step")
    assert speed.value == pytest.approx(320 / (second.at - first.at))


def test_the_last_words_of_a_worker_that_ends_are_on_the_curve() -> None:
    plane = Plane()
    job = plane.submit("train", gpus=1)
    plane.after(1)
    plane.engine.reports(job, a_line(plane.now, step=99))
    plane.engine.finish(job)
    plane.settle()
    assert [point.value for point in plane.services.outputs.curves(ANN, job).of("step")] == [99.0]


def test_nobody_sees_curves_of_jobs_that_are_not_theirs_to_see() -> None:
    plane = Plane()
    with pytest.raises(NotFound):
        plane.services.outputs.curves(User(name=UserName("eve")), JobId("j-none"))
    assert plane.services.outputs.curves(ADMIN, plane.submit()).curves == ()
