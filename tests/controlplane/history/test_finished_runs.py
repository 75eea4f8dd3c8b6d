"""What became of each job is kept for good, whole, and found again by whoever may see it."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from grus.controlplane.fingerprint.profile_cache import Profiles
from grus.controlplane.history.finished_runs import gpu_seconds, metrics, result_of
from grus.controlplane.history.finished_runs_recorder import PAGE, ResultKeeper
from grus.controlplane.history.retention import prune
from grus.controlplane.monitoring.profile_ingest import FRESH, Profiling
from grus.controlplane.monitoring.telemetry_collector import DetectedWorkloads, holding
from grus.model.artifacts import Artifact, Input
from grus.model.audit import AuditRecord
from grus.model.errors import Conflict, NotFound, StoreFailed
from grus.model.identifiers import JobId, QueueName, UserName
from grus.model.interfaces import REPORTS, RESULTS, Collection, Event, User, WorkerState
from grus.model.jobs import Phase, worker_id
from grus.model.queues import Queue, Quota
from grus.model.resources import GPU
from grus.model.results import Metric, Result
from grus.store.memory import MemoryStore
from grus.telemetry.samples import Measure, Sample, Subject
from tests.controlplane.plane import ADMIN, ANN, Plane
from tests.store.builders import a_job, a_report, a_result, done, stored

EVE = User(name=UserName("eve"))


class Archive:
    """A control plane in virtual time whose results are kept by hand."""

    def __init__(self, folder: Path, *queues: Queue) -> None:
        self.folder = folder
        (folder / "train.py").write_text("steps = 1")
        self.plane = Plane(*queues, pool="1x4:A100")
        self.begin()

    def begin(self) -> None:
        profiles = Profiles(self.plane.store)
        self.keeper = ResultKeeper(self.plane.store, profiles)
        loop = self.plane.loop
        self.profiling = Profiling(
            self.plane.store,
            profiles,
            jobs=lambda: holding(loop),
            types=lambda: {device.id: device.type for node in loop.picture.nodes for device in node.devices},
            clock=lambda: self.plane.now,
            on_ended=self.keeper.ended,
        )
        self.keeper.open()
        self.profiling.open()

    def close(self) -> None:
        self.keeper.close()
        self.profiling.close()
        self.plane.close()

    def submit(self, name: str = "resnet", gpus: int = 2, queue: str = "default") -> JobId:
        self.plane.after(2 * FRESH)
        run = ("python", "train.py")
        id_ = self.plane.submit(name, run=run, workdir=str(self.folder), gpus=gpus, queue=queue)
        self.profiling.step(self.plane.now)
        return id_

    def measure(self, id_: JobId, seconds: int, **values: float) -> None:
        for _ in range(seconds):
            self.plane.after(1.0)
            job = self.plane.job(id_)
            subject = Subject(job.seats[0].node, job=id_, worker=worker_id(job.id, job.attempt, job.seats[0]))
            sample = Sample(subject, self.plane.now, {Measure[k.upper()]: v for k, v in values.items()})
            self.profiling.look(DetectedWorkloads({}, {}), {subject: sample})

    def finish(self, id_: JobId, code: int = 0) -> None:
        for worker in self.plane.engine.workers():
            if worker.job == id_ and worker.state is not WorkerState.ENDED:
                self.plane.engine.exit(worker.id, code)
        self.plane.settle()
        self.profiling.step(self.plane.now)
        self.keeper.step()

    def result(self, id_: JobId) -> Result:
        return self.plane.store.get(RESULTS, id_)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    made = Archive(tmp_path, Queue(name=QueueName("secret"), quota=Quota.of(2), members=(ANN.name,)))
    yield made
    made.close()


def test_a_job_that_succeeded_leaves_what_it_was_given_took_and_reached(archive: Archive) -> None:
    id_ = archive.submit()
    archive.measure(id_, 11, utilisation=0.5, memory=4e9, host_memory=1e9)
    reports = [replace(a_report(id_, n), figures=(("loss", 1.0 / (n + 1)),)) for n in (0, 1)]
    done(archive.plane.store.put(REPORTS, *reports))
    archive.finish(id_)
    found = archive.result(id_)
    job = archive.plane.job(id_)
    assert (found.phase, found.name, found.user, found.attempts) == (Phase.SUCCEEDED, "resnet", ANN.name, 1)
    assert (found.started_at, found.ended_at) == (job.first_started_at, job.ended_at)
    assert found.command == ("python", "train.py")
    assert found.seconds == pytest.approx(11.0)
    assert found.gpu_seconds == pytest.approx(22.0)
    assert found.most_held == 2 * GPU
    assert found.metrics == (Metric("loss", 0.5, 0.5, 1.0),)
    assert found.profile is not None
    assert found.profile.phase is Phase.SUCCEEDED
    assert found.profile.peak_memory == 4e9
    assert found.profile.mean_utilisation == pytest.approx(0.5)
    assert found.code
    assert found.fingerprint


def test_the_code_that_is_kept_is_what_was_there_when_it_started(archive: Archive) -> None:
    first, second = archive.submit(), archive.submit()
    archive.finish(first)
    (archive.folder / "train.py").write_text("steps = 2")
    archive.finish(second)
    third = archive.submit()
    archive.finish(third)
    codes = [archive.result(id_).code for id_ in (first, second, third)]
    assert codes[0] == codes[1] != codes[2]


def test_a_server_that_dies_in_the_middle_of_a_run_knows_its_code_all_the_same(archive: Archive) -> None:
    id_ = archive.submit()
    code = archive.profiling.profiles.settled(id_)
    assert code is not None
    archive.profiling.close()
    archive.keeper.close()
    archive.plane.restart()
    (archive.folder / "train.py").write_text("steps = 9")
    archive.begin()
    archive.finish(id_)
    assert archive.result(id_).code == code.code != ""


def test_a_job_that_never_ran_leaves_a_result_without_figures(archive: Archive) -> None:
    id_ = archive.submit(gpus=4)
    waits = archive.submit(gpus=4)
    archive.plane.services.actions.stop(ANN, waits)
    archive.plane.settle()
    archive.keeper.step()
    found = archive.result(waits)
    assert (found.phase, found.started_at, found.gpu_seconds, found.profile) == (
        Phase.STOPPED,
        None,
        0.0,
        None,
    )
    with pytest.raises(NotFound):
        archive.result(id_)


def test_what_ended_while_nobody_listened_is_found_by_the_next_server(archive: Archive) -> None:
    ids = [archive.submit(gpus=1) for _ in range(3)]
    archive.keeper.close()
    for id_ in ids:
        archive.plane.engine.exit(id_, 0)
    archive.plane.settle()
    assert archive.plane.store.find(RESULTS) == []
    archive.begin()
    archive.keeper.sweep()
    assert {one.job for one in archive.plane.store.find(RESULTS)} == set(ids)


def test_all_that_lack_a_result_are_found_however_many() -> None:
    store = MemoryStore()
    ended = [replace(a_job(f"j{n}", phase=Phase.SUCCEEDED), ended_at=float(n)) for n in range(2 * PAGE + 1)]
    stored(store, *ended, a_job("jlive"))
    ResultKeeper(store, Profiles(store)).sweep()
    assert len(store.find(RESULTS)) == 2 * PAGE + 1


T = TypeVar("T")


class BrokenOnce(MemoryStore):
    """A store whose disk fails for the first result."""

    failures = 1

    def put(self, collection: Collection[T], *values: T, record: AuditRecord | None = None) -> "Future[None]":
        if self.failures:
            self.failures -= 1
            failed: Future[None] = Future()
            failed.set_exception(StoreFailed("disk full"))
            return failed
        return super().put(collection, *values, record=record)


def test_a_result_that_could_not_be_written_is_written_later() -> None:
    store = BrokenOnce()
    stored(store, *(replace(a_job(f"j{n}", phase=Phase.SUCCEEDED), ended_at=1.0) for n in range(2)))
    keeper = ResultKeeper(store, Profiles(store))
    keeper.sweep()
    assert len(store.find(RESULTS)) == 1
    keeper.sweep()
    assert len(store.find(RESULTS)) == 2


def test_the_thread_keeps_what_ends_and_stops_when_it_shall() -> None:
    store = MemoryStore()
    written = threading.Event()
    [job] = stored(store, a_job("j1"))
    keeper = ResultKeeper(store, Profiles(store))
    put = store.put

    def told(collection: Collection[Result], *results: Result) -> "Future[None]":
        future = put(collection, *results)
        written.set()
        return future

    store.put = told  # type: ignore[assignment, method-assign]  # only to hear of it
    keeper.start()
    done(store.replace(replace(job, phase=Phase.STOPPED, ended_at=2.0), None))
    assert written.wait(300)
    keeper.close()
    assert [one.job for one in store.find(RESULTS)] == ["j1"]


def test_inputs_are_known_by_what_the_other_job_left_also_when_only_its_result_is_kept() -> None:
    store = MemoryStore()
    data = Artifact("data", "a" * 64, 5)
    kept = replace(a_job("j1", phase=Phase.SUCCEEDED), ended_at=1.0, artefacts=(data,))
    stored(store, kept)
    done(store.put(RESULTS, replace(a_result("jgone"), outputs=(Artifact("model", "b" * 64, 7),))))
    wants = (
        Input("train", JobId("j1"), "data"),
        Input("base", JobId("jgone"), "model"),
        Input("lost", JobId("jnobody"), "x"),
    )
    after = a_job("j2", phase=Phase.SUCCEEDED)
    after = replace(after, spec=replace(after.spec, inputs=wants), ended_at=2.0)
    found = ResultKeeper(store, Profiles(store)).made(after)
    assert found.inputs == (Artifact("train", "a" * 64, 5), Artifact("base", "b" * 64, 7))


def test_values_of_environment_variables_are_not_kept() -> None:
    job = a_job("j1", phase=Phase.SUCCEEDED)
    job = replace(job, spec=replace(job.spec, env=(("TOKEN", "hunter2"),)))
    assert "hunter2" not in repr(result_of(job).env)
    assert [name for name, _ in result_of(job).env] == ["TOKEN"]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([], 0.0),
        ([(10.0, None), (20.0, 2 * GPU)], 20.0),
        ([(10.0, GPU // 2), (20.0, 0)], 5.0),
        ([(10.0, 4 * GPU), (12.0, None), (15.0, GPU), (25.0, 0)], 30.0),
    ],
)
def test_gpu_seconds_are_what_was_held_from_one_event_to_the_next(
    told: list[tuple[float, int | None]], expected: float
) -> None:
    events = [Event(at=at, kind="x", text="", held=held) for at, held in told]
    assert gpu_seconds(events, 30.0) == pytest.approx(expected)


def test_what_a_job_last_said_counts_even_if_its_report_was_not_kept() -> None:
    reports = [replace(a_report("j1", n), figures=(("loss", loss),)) for n, loss in ((1, 0.5), (0, 2.0))]
    assert metrics(reports, (("loss", 0.25), ("acc", 1.0))) == (
        Metric("acc", 1.0, 1.0, 1.0),
        Metric("loss", 0.25, 0.25, 2.0),
    )


# ------------------------------------------------------------------------------------------------ for people


def test_each_sees_the_runs_whose_jobs_they_would_see(archive: Archive) -> None:
    secret, open_ = archive.submit("hidden", queue="secret"), archive.submit("open")
    for id_ in (secret, open_):
        archive.finish(id_)
    results = archive.plane.services.results
    assert {one.job for one in results.listed(ANN)} == {secret, open_}
    assert [one.job for one in results.listed(EVE)] == [open_]
    assert results.listed(EVE, mine=True) == []
    assert [one.job for one in results.listed(ADMIN, name="hidden")] == [secret]
    assert results.of(ANN, secret).job == secret
    with pytest.raises(NotFound, match="there is no run"):
        results.of(EVE, secret)


def test_pages_go_on_after_a_run_and_pass_over_what_others_may_not_see(archive: Archive) -> None:
    for n in range(6):
        archive.finish(archive.submit(f"n{n}", gpus=1, queue="secret" if n % 2 else "default"))
    results = archive.plane.services.results
    first = results.listed(EVE, limit=2)
    rest = results.listed(EVE, limit=2, after=first[-1].job)
    assert [one.name for one in (*first, *rest)] == ["n4", "n2", "n0"]


def test_a_job_that_goes_on_is_no_run_yet_and_its_owner_is_told_so(archive: Archive) -> None:
    id_ = archive.submit(queue="secret")
    results = archive.plane.services.results
    with pytest.raises(Conflict, match="running"):
        results.of(ANN, id_)
    with pytest.raises(NotFound):
        results.of(EVE, id_)
    with pytest.raises(NotFound):
        results.of(ANN, JobId("jnobody"))


def test_results_are_kept_longer_than_their_jobs(archive: Archive) -> None:
    id_ = archive.submit()
    archive.finish(id_)
    plane = archive.plane
    settings = replace(plane.settings, job_retention=10.0, result_retention=100.0)
    prune(plane.store, plane.engine, settings, plane.now + 50.0)
    with pytest.raises(NotFound):
        plane.store.job(id_)
    assert plane.services.results.of(ANN, id_).job == id_
    prune(plane.store, plane.engine, settings, plane.now + 150.0)
    assert plane.store.find(RESULTS) == []


def test_code_that_was_edited_between_two_starts_is_other_code_however_soon(archive: Archive) -> None:
    first = archive.submit(gpus=1)
    (archive.folder / "train.py").write_text("steps = 2")
    archive.plane.after(0.1)
    second = archive.plane.submit("resnet", run=("python", "train.py"), workdir=str(archive.folder), gpus=1)
    archive.profiling.step(archive.plane.now)
    for id_ in (first, second):
        archive.finish(id_)
    assert archive.result(first).code != archive.result(second).code
