"""Advice to ask for less: said where it was measured, and not otherwise."""

from dataclasses import replace

import pytest

from grus.controlplane.gpu_sizing.rightsizing_advisor import WATCHED, advice
from grus.model.activity_labels import Tag, TrainingStage, WorkloadKind
from grus.model.identifiers import DeviceId, NodeId
from grus.model.jobs import Job, Phase, Seat
from grus.model.profiles import Speed
from grus.model.resources import GPU
from tests.controlplane.plane import ANN, Plane
from tests.scheduler.builders import GB, a_job, a_queue

NOW = 10_000.0
TAG = Tag(kind=WorkloadKind.TRAINING, at=0.0, expires=1e9, utilisation=0.8, peak_memory=12 * GB)


def running(gpus: int = 4, *, share: int = GPU, asked: str | None = None, since: float = 2 * WATCHED) -> Job:
    seats = tuple(
        Seat("worker", number, NodeId("n1"), (DeviceId(f"n1-{number}"),), share) for number in range(gpus)
    )
    job = a_job("one", gpus=asked or gpus)
    return replace(job, phase=Phase.RUNNING, seats=seats, started_at=NOW - since)


def speeds(**by_size: float) -> list[Speed]:
    """`_1=10.0`: ten examples a second on one GPU."""
    sizes = {int(name[1:]): rate for name, rate in by_size.items()}
    return [Speed(type="GPU", nodes=1, gpus=n, local=1.0, step=n / rate) for n, rate in sizes.items()]


def test_who_asked_for_four_and_uses_one_is_told_so() -> None:
    said = advice(running(4), replace(TAG, utilisation=0.22), NOW, used=[0.0, 0.88, 0.01, 0.0])
    assert said == "it holds 4 GPUs and 1 is at work (88%, 1%, 0%, 0%): `gpu: 1` would do"


def test_a_speed_measured_with_fewer_counts_most() -> None:
    known = speeds(_1=10.0, _2=19.0, _4=20.0)
    said = advice(running(4), TAG, NOW, used=[0.5] * 4, speeds=known)
    assert said == "it holds 4 GPUs, and ran 95% as fast on 2: `gpu: 2` would do"
    assert advice(running(4), TAG, NOW, used=[0.9] * 4, speeds=speeds(_1=10.0, _2=17.0, _4=20.0)) == ""
    assert advice(running(4), TAG, NOW, speeds=speeds(_1=10.0, _2=19.0)) == "", "never measured with four"


def test_gpus_that_wait_together_are_worth_a_try() -> None:
    said = advice(running(4), replace(TAG, utilisation=0.2), NOW, used=[0.2] * 4)
    assert said == "its 4 GPUs are busy 20% of the time: try `gpu: 1`, and compare its speed"
    assert advice(running(2), replace(TAG, utilisation=0.48), NOW, used=[0.48] * 2) == ""


def test_one_gpu_that_is_used_by_less_than_half_could_be_shared() -> None:
    low = replace(TAG, utilisation=0.2, peak_memory=3 * GB)
    assert "`gpu: 0.5` would do" in advice(running(1), low, NOW, memory=16 * GB)
    assert advice(running(1), replace(low, peak_memory=9 * GB), NOW, memory=16 * GB) == ""
    assert advice(running(1), replace(low, utilisation=0.7), NOW, memory=16 * GB) == ""
    assert advice(running(1, share=GPU // 2), low, NOW, memory=16 * GB) == ""


@pytest.mark.parametrize(
    "tag",
    [
        None,
        replace(TAG, utilisation=0.1, kind=WorkloadKind.IDLE),
        replace(TAG, utilisation=0.1, stage=TrainingStage.START_UP),
        replace(TAG, utilisation=0.1, hung_since=5.0),
        replace(TAG, utilisation=0.1, expires=NOW),
        replace(TAG, utilisation=None),
        TAG,
    ],
)
def test_nothing_is_said_of_what_idles_hangs_starts_is_not_known_or_works(tag: Tag | None) -> None:
    assert advice(running(4), tag, NOW) == ""


def test_nothing_is_said_before_it_was_watched_for_a_while() -> None:
    low = replace(TAG, utilisation=0.1)
    assert advice(running(4, since=WATCHED - 1.0), low, NOW) == ""
    assert advice(running(4, since=WATCHED), low, NOW) != ""


def test_the_size_of_an_elastic_job_is_not_judged_by_its_speed() -> None:
    known = speeds(_1=10.0, _2=19.0, _4=20.0)
    assert advice(running(4, asked="1..4"), TAG, NOW, used=[0.9] * 4, speeds=known) == ""


def test_why_tells_what_was_recognised_and_what_to_ask_for() -> None:
    plane = Plane()
    job = plane.submit("wide", gpus=4)
    plane.after(2.0)
    plane.tags = {
        job: replace(TAG, utilisation=0.15, period=20.0, boundary=0.0, stage=TrainingStage.TRAINING)
    }
    assert plane.services.jobs.why(ANN, job).notes == (
        "recognised as training: a period of 20s, in training, 15% of its GPUs used, at most 12GB on one",
    )
    plane.after(WATCHED)
    assert plane.services.jobs.why(ANN, job).notes[1].endswith("try `gpu: 1`, and compare its speed")


def test_why_tells_of_both_that_one_is_let_finish_its_epoch_for_the_other() -> None:
    plane = Plane(a_queue("A", quota=1), a_queue("B", quota=1), pool="1x2")
    kept, lent = plane.submit("kept", queue="A"), plane.submit("lent", queue="A")
    plane.after(2.0)
    for job in (kept, lent):
        plane.tags[job] = replace(TAG, period=40.0, boundary=plane.now - 20.0)
    plane.after(6.0)
    asker = plane.submit("asker", queue="B")
    why = plane.services.jobs.why(ANN, asker)
    assert "lent is let finish its epoch first, for another 15 s" in why.sentence
    told = plane.services.jobs.why(ANN, lent)
    assert f"it has to make room for asker ({asker}) of B" in told.notes[0]
    assert plane.phase(lent) is Phase.RUNNING
    plane.after(15.1).after(5.0)
    assert plane.phase(asker) in (Phase.STARTING, Phase.RUNNING)
    assert plane.phase(lent) is Phase.PAUSED
    (note,) = plane.services.jobs.why(ANN, lent).notes
    assert "it was paused because A was over quota" in note
    assert "it goes at the end of an epoch (one every 40 s)" in note
