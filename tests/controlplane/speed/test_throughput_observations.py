"""Reports teach how a job scales; what they teach reaches the scheduler, and nothing else does."""

import json
from dataclasses import replace

import pytest

from grus.controlplane.fingerprint.profile_cache import Profiles
from grus.controlplane.speed.throughput_observations import Learning
from grus.model.identifiers import DeviceId, NodeId
from grus.model.jobs import Job, Launch, Phase, Seat
from grus.model.resources import GPU, Range
from grus.scheduler.elasticity.throughput_outlook import Outlook
from grus.store.memory import MemoryStore
from tests.controlplane.plane import ADMIN, Plane
from tests.scheduler.builders import a_job


def a_line(at: float, team: int = 0, **figures: object) -> str:
    word = {"elastic": {"address": "127.0.0.1:1", "team": team}} if team else {}
    return json.dumps({"at": at, "figures": figures, **word})


def running(name: str, size: int, *, generation: int = 1, gpus: str = "1..8") -> Job:
    seats = tuple(Seat("worker", i, NodeId("n"), (DeviceId(f"n-{i}"),), GPU) for i in range(size))
    job = a_job(name, gpus=gpus)
    return replace(job, phase=Phase.RUNNING, attempt=1, generation=generation, seats=seats)


class Pupil:
    """A job whose step takes 0.2 s, and 0.8 s more shared by its GPUs."""

    def __init__(self, learning: Learning, name: str = "job") -> None:
        learning.per_node = 8
        self.learning, self.name = learning, name
        self.at, self.step, self.generation = 1000.0, 0.0, 0
        self.outlook: Outlook | None = None

    def run(self, size: int, reports: int = 3, slower: float = 1.0) -> "Pupil":
        self.generation += 1
        job = running(self.name, size, generation=self.generation)
        for _ in range(reports):
            self.at += 10.0
            self.step += 10.0 / ((0.2 + 0.8 / size) * slower)
            line = a_line(self.at, step=self.step, total=10_000)
            self.outlook = self.learning.hear(job, line, self.at) or self.outlook
        return self


def test_sizes_that_were_run_are_known_and_larger_ones_predicted() -> None:
    found = Pupil(Learning()).run(1).run(2).run(4).outlook
    assert found is not None
    assert found.sizes == tuple(range(1, 9)), "twice the largest that was run"
    truth = [1.0 / (0.2 + 0.8 / size) for size in found.sizes]
    assert found.speeds == pytest.approx(truth, rel=0.1)


def test_what_is_left_is_what_the_job_says() -> None:
    pupil = Pupil(Learning()).run(1)
    assert pupil.outlook is not None
    assert pupil.outlook.left == pytest.approx(10_000 - pupil.step, rel=0.15)


def test_a_single_report_teaches_nothing() -> None:
    assert Pupil(Learning()).run(2, reports=1).outlook is None


def test_what_it_does_beside_another_on_its_gpu_teaches_nothing_of_its_speed() -> None:
    learning = Learning(profiles := Profiles())
    alone = running("job", 1, gpus="1")
    alone = replace(alone, spec=replace(alone.spec, request=replace(alone.spec.request, shares=True)))
    beside = replace(alone, seats=tuple(replace(seat, share=GPU // 2) for seat in alone.seats))
    at = step = 0.0
    for job, speed in ((alone, 2.0), (beside, 1.0), (alone, 2.0)):
        for _ in range(4):
            at, step = at + 10.0, step + 10.0 * speed
            learning.hear(job, a_line(at, step=step), at)
    known = profiles.of(alone)
    assert known is not None
    assert [speed.step for speed in known.speeds] == pytest.approx([0.5])


def test_noise_of_a_few_percent_is_no_news() -> None:
    pupil = Pupil(Learning()).run(2)
    pupil.outlook = None
    for slower in (1.03, 0.97, 1.05):
        pupil.run(2, slower=slower)
    assert pupil.outlook is None


def test_a_job_that_became_slower_is_measured_anew() -> None:
    pupil = Pupil(Learning()).run(1).run(4)
    before = pupil.outlook
    pupil.run(4, reports=20, slower=2.0)
    assert before is not None
    assert pupil.outlook is not None
    assert pupil.outlook.speeds[3] < 0.7 * before.speeds[3]


def test_the_next_job_of_a_fingerprint_is_known_from_the_start() -> None:
    learning = Learning()
    Pupil(learning, "job").run(1).run(2).run(4)
    learning.ended(running("job", 4))
    found = learning.greet(a_job("job", gpus="1..8"))
    assert found is not None
    assert found.sizes == tuple(range(1, 9))
    other = a_job("other", gpus="1..8")
    assert learning.greet(replace(other, spec=replace(other.spec, run=("false",)))) is None


def test_a_server_that_starts_anew_knows_what_jobs_have_shown() -> None:
    """Also those that still run: nothing is lost but what was never written."""
    store = MemoryStore()
    profiles = Profiles(store)
    Pupil(Learning(profiles), "job").run(1).run(2).run(4)
    profiles.write()
    found = Learning(Profiles(store)).greet(a_job("job", gpus="1..8"))
    assert found is not None
    truth = [(0.2 + 0.8) / (0.2 + 0.8 / size) for size in found.sizes]
    assert found.speeds == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize(
    "figures",
    [{}, {"loss": 1.0}, {"step": "x"}, {"step": float("nan")}, {"step": -1e300}, {"step": 1, "batch": -5}],
)
def test_reports_that_make_no_sense_teach_nothing(figures: dict[str, object]) -> None:
    learning = Learning()
    for at in (10.0, 20.0, 30.0):
        assert learning.hear(running("job", 2), a_line(at, 0, **figures), at) is None


def test_speeds_on_types_of_gpu_are_learned_from_rigid_jobs_too() -> None:
    """The same program twice as fast on one type; the next one is known on both."""
    learning = Learning()
    learning.type_of = {DeviceId("n-0"): "A100", DeviceId("m-0"): "T4"}
    for device, pace in (("n-0", 2.0), ("m-0", 1.0)):
        job = replace(
            running("job", 1, gpus="1"), seats=(Seat("worker", 0, NodeId("n"), (DeviceId(device),), GPU),)
        )
        for at in (10.0, 20.0, 30.0):
            learning.hear(job, a_line(at, step=at * pace), at)
        learning.ended(job)
    found = learning.greet(a_job("job", gpus="1"))
    assert found is not None
    assert dict(found.types)["A100"] == pytest.approx(2.0 * dict(found.types)["T4"])
    assert found.sizes == ()


def test_slices_are_not_asked() -> None:
    learning = Learning()
    sliced = replace(running("job", 1), spec=a_job("job", gpus=0.5).spec)
    for at in (10.0, 20.0, 30.0):
        assert learning.hear(sliced, a_line(at, step=at), at) is None


def test_gpus_flow_to_the_job_whose_reports_show_that_it_scales() -> None:
    """Through the real loop: both hold half; one gets faster with its size, the other does not."""
    plane = Plane(pool="1x8")
    steep, flat = (plane.submit(name, gpus="1..8", launch=Launch.PER_GPU) for name in ("steep", "flat"))
    plane.settle()
    steps = {steep: 0.0, flat: 0.0}
    for _ in range(30):
        for job in (steep, flat):
            size = len(plane.job(job).staying)
            steps[job] += 10.0 * (size if job == steep else 1.0)
            plane.engine.reports(f"{job}.1.worker.0", a_line(plane.now + 10.0, step=steps[job], total=1e6))
        plane.after(10.0)
    assert len(plane.job(steep).staying) > len(plane.job(flat).staying)
    plane.close()


def test_a_person_who_scales_a_job_is_obeyed_however_little_it_pays() -> None:
    plane = Plane(pool="1x8")
    job = plane.submit("e", gpus="1..8")
    plane.do(lambda: plane.services.actions.scale(ADMIN, job, Range(1, 1)))
    plane.after(5)
    for step in range(6):
        plane.engine.advance(6)
        plane.engine.reports("worker.0", a_line(plane.now, step=10.0 * step, total=60))
        plane.settle()
    assert plane.loop.picture.snapshot.outlooks[job].sizes == (1, 2)
    plane.do(lambda: plane.services.actions.scale(ADMIN, job, Range(4, 4)))
    assert len(plane.job(job).seats) == 4


def in_a_team(job: Job, number: int, members: int) -> Job:
    """The job with its first so many seats in a team; the rest boot."""
    seats = (replace(seat, joined=number if seat.index < members else 0) for seat in job.seats)
    return replace(job, team=number, seats=tuple(seats))


def test_the_size_that_counts_is_that_of_the_team() -> None:
    """Four seats, of which two are at work: that is the speed of two."""
    learning = Learning()
    learning.per_node = 8
    job = in_a_team(running("job", 4), 1, 2)
    outlook = None
    for at in (1000.0, 1010.0, 1020.0):
        outlook = learning.hear(job, a_line(at, 1, step=at, total=10_000), at) or outlook
    assert outlook is not None
    assert outlook.sizes == (1, 2, 3, 4), "twice the two that were seen"


def test_steps_of_the_team_before_are_not_counted_for_the_next() -> None:
    """The report says in which team they were done; what lies between is measured neither here nor there."""
    learning = Learning()
    learning.per_node = 8
    before, after = in_a_team(running("job", 4), 1, 1), in_a_team(running("job", 4), 2, 4)
    lines = [(before, 1, 0.0, 0.0), (before, 1, 10.0, 10.0), (after, 1, 20.0, 20.0), (after, 2, 30.0, 21.0)]
    lines += [(after, 2, 40.0, 61.0), (after, 2, 50.0, 101.0)]
    outlook = None
    for job, team, at, step in lines:
        outlook = learning.hear(job, a_line(at, team, step=step, total=1000), at) or outlook
    assert outlook is not None
    assert outlook.speeds[3] / outlook.speeds[0] == pytest.approx(4.0, rel=0.05)


def test_what_a_change_costs_is_what_was_seen_and_others_of_its_kind_know_it() -> None:
    learning = Learning()
    learning.per_node = 8
    job = replace(in_a_team(running("first", 2), 1, 2), boot=4.0)
    unknown = Pupil(Learning(), "first").run(2).outlook
    assert unknown is not None
    assert (unknown.stall, unknown.boot) == (1.0, 30.0)
    outlook = None
    for at in (1000.0, 1010.0, 1020.0):
        outlook = learning.hear(job, a_line(at, 1, step=at, stall=0.25), at) or outlook
    assert outlook is not None
    assert (outlook.stall, outlook.boot) == (0.25, 4.0)
    learning.ended(replace(job, phase=Phase.SUCCEEDED))
    next_one = learning.greet(replace(a_job("second", gpus="1..8"), spec=job.spec))
    assert next_one is not None
    assert next_one.boot == 4.0


@pytest.mark.parametrize("stall", [-1.0, 1e9])
def test_a_stall_that_cannot_be_is_not_believed(stall: float) -> None:
    learning = Learning()
    learning.per_node = 8
    job = in_a_team(running("job", 2), 1, 2)
    outlook = None
    for at in (1000.0, 1010.0, 1020.0):
        outlook = learning.hear(job, a_line(at, 1, step=at, stall=stall), at) or outlook
    assert outlook is not None
    assert outlook.stall == 1.0


def test_figures_are_read_from_the_first_member_of_the_team() -> None:
    """Worker 0 was lost and its successor boots: what it says of itself is not how far the job is."""
    plane = Plane()
    job = plane.submit("e", gpus="1..2")
    for number in (0, 1):
        plane.engine.rings(f"worker.{number}", json.dumps({"elastic": {"address": f"127.0.0.1:{number}"}}))
    plane.settle()
    plane.do(lambda: plane.engine.kill("worker.0"))
    plane.engine.reports("worker.1", a_line(plane.now, 2, step=7))
    plane.engine.reports("worker.0", a_line(plane.now, step=0))
    plane.after(6)
    assert dict(plane.job(job).progress) == {"step": 7.0}


def test_how_long_a_worker_needed_to_join_is_kept() -> None:
    plane = Plane()
    job = plane.submit("e", gpus="1..2")
    plane.engine.advance(7)
    for number in (0, 1):
        plane.engine.rings(f"worker.{number}", json.dumps({"elastic": {"address": f"127.0.0.1:{number}"}}))
    plane.settle()
    assert plane.job(job).boot == 7.0
