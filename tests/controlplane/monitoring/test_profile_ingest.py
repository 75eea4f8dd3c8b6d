"""What running jobs show becomes what is known of their fingerprints, whoever dies on the way."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grus.controlplane.admission.submission import new_job
from grus.controlplane.fingerprint import fingerprints
from grus.controlplane.fingerprint.code_digest import Digests, read
from grus.controlplane.fingerprint.profile_cache import Profiles
from grus.controlplane.monitoring.activity_tag_store import TagKeeper
from grus.controlplane.monitoring.profile_ingest import FRESH, WRITE, Profiling
from grus.controlplane.monitoring.profile_query import Insight
from grus.controlplane.monitoring.telemetry_collector import DetectedWorkloads, holding
from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.errors import NotFound
from grus.model.identifiers import JobId, UserName
from grus.model.interfaces import PROFILES, USERS
from grus.model.jobs import Phase, Spec, worker_id
from grus.model.profiles import JobProfile
from grus.telemetry.samples import Measure, Sample, Subject
from tests.controlplane.plane import ADMIN, ANN, Plane, a_spec


class Shop:
    """A control plane in virtual time, watched once a second; jobs run `python train.py` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "train.py").write_text("steps = 1")
        self.plane = Plane(pool="1x4:A100")
        self.begin()

    def begin(self) -> None:
        self.profiles = Profiles(self.plane.store)
        loop = self.plane.loop
        self.profiling = Profiling(
            self.plane.store,
            self.profiles,
            jobs=lambda: holding(loop),
            types=lambda: {device.id: device.type for node in loop.picture.nodes for device in node.devices},
            clock=lambda: self.plane.now,
        )
        self.profiling.open()
        clock = lambda: self.plane.now  # noqa: E731 - read at each call
        keeper = TagKeeper(self.plane.store)
        self.insight = Insight(self.plane.store, self.profiles, keeper, False, clock)

    def die(self) -> None:
        """The server is killed, and another takes over; workers go on."""
        self.profiling._leave()
        self.plane.restart()
        self.begin()

    def submit(self, *run: str, gpus: int = 1, data: tuple[str, ...] = ()) -> JobId:
        self.plane.after(2 * FRESH)
        run = run or ("python", "train.py")
        id_ = self.plane.submit("resnet", run=run, workdir=str(self.folder), gpus=gpus, data=data)
        self.profiling.step(self.plane.now)
        return id_

    def watch(self, id_: JobId, seconds: int, tag: Tag | None = None, **values: float) -> None:
        for _ in range(seconds):
            self.plane.after(1.0)
            job = self.plane.job(id_)
            worker = worker_id(job.id, job.attempt, job.seats[0])
            subject = Subject(job.seats[0].node, job=id_, worker=worker)
            sample = Sample(subject, self.plane.now, {Measure[k.upper()]: v for k, v in values.items()})
            self.profiling.look(DetectedWorkloads({}, {} if tag is None else {id_: tag}), {subject: sample})

    def finish(self, id_: JobId, code: int = 0) -> None:
        self.plane.engine.exit(id_, code)
        self.plane.settle()
        self.profiling.step(self.plane.now)

    def known(self, id_: JobId) -> JobProfile:
        found = self.insight.of(self.plane.job(id_)).profile
        assert found is not None
        return found


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.plane.close()


def test_a_job_leaves_what_it_took_to_the_next_of_its_fingerprint(shop: Shop) -> None:
    first = shop.submit()
    tag = Tag(kind=WorkloadKind.TRAINING, at=0.0, expires=1e9, period=5.0)
    shop.watch(first, 21, tag, utilisation=0.7, memory=4e9, host_memory=1e9, cpu=2.0)
    shop.finish(first)
    second = shop.submit()
    learned = shop.insight.of(shop.plane.job(second))
    expected = learned.expected
    assert expected is not None
    assert (expected.runs, expected.same_code, expected.new_data) == (1, True, False)
    assert (expected.memory, expected.host_memory, expected.duration) == (4e9, 1e9, 21.0)
    assert (expected.kind, expected.period) == (WorkloadKind.TRAINING, 5.0)
    assert expected.utilisation == pytest.approx(0.7)
    assert shop.profiling.facts(shop.plane.job(second)).kind is WorkloadKind.TRAINING


def test_nothing_is_expected_of_the_first(shop: Shop) -> None:
    first = shop.submit()
    shop.watch(first, 3, utilisation=0.7)
    assert shop.insight.of(shop.plane.job(first)).expected is None
    assert shop.profiling.facts(shop.plane.job(first)).kind is None


def test_other_code_is_told_from_the_same_and_still_known_by_its_command(shop: Shop) -> None:
    first = shop.submit()
    shop.finish(first)
    (shop.folder / "train.py").write_text("steps = 2")
    second, other = shop.submit(), shop.submit("python", "eval.py")
    expected = shop.insight.of(shop.plane.job(second)).expected
    assert expected is not None
    assert not expected.same_code
    assert shop.known(first).fingerprint != shop.known(second).fingerprint
    assert shop.insight.of(shop.plane.job(other)).expected is None


def test_code_that_is_edited_while_a_job_waits_is_the_code_that_it_runs(shop: Shop) -> None:
    for _ in range(4):
        shop.submit(gpus=1)
    waits = shop.submit(gpus=1)
    assert shop.plane.phase(waits) is Phase.PENDING
    before = shop.insight.of(shop.plane.job(waits)).fingerprint
    (shop.folder / "train.py").write_text("steps = 3")
    assert shop.insight.of(shop.plane.job(waits)).fingerprint != before
    assert shop.profiles.settled(waits) is None


def test_the_same_code_on_new_data_is_told(shop: Shop) -> None:
    (shop.folder / "data").mkdir()
    data = (str(shop.folder / "data"),)
    shop.finish(shop.submit(data=data))
    again = shop.submit(data=data)
    assert not shop.profiling.facts(shop.plane.job(again)).new_data
    shop.finish(again)
    (shop.folder / "data" / "more.bin").write_bytes(b"x")
    new = shop.submit(data=data)
    assert shop.profiling.facts(shop.plane.job(new)).new_data
    expected = shop.insight.of(shop.plane.job(new)).expected
    assert expected is not None
    assert expected.new_data
    shop.finish(new)
    later = shop.insight.of(shop.plane.job(new)).expected
    assert later is not None
    assert later.new_data, "it was new then"
    assert [run.new_data for run in shop.known(new).runs] == [False, False, True]


def test_a_server_that_is_killed_loses_at_most_what_it_had_not_written(shop: Shop) -> None:
    job = shop.submit()
    shop.watch(job, int(WRITE), utilisation=0.5)
    shop.profiling.step(shop.plane.now)
    written = shop.known(job).uses[0].seconds
    shop.watch(job, 10, utilisation=0.5)
    shop.die()
    shop.profiling.step(shop.plane.now)
    shop.watch(job, 11, utilisation=0.5)
    shop.finish(job)
    assert written == WRITE - 1
    assert shop.known(job).uses[0].seconds == written + 10
    assert shop.known(job).count == 1
    assert shop.known(job).runs[0].phase is Phase.SUCCEEDED


def test_a_job_that_ended_while_nobody_looked_is_settled_from_its_record(shop: Shop) -> None:
    job = shop.submit()
    shop.watch(job, 5, utilisation=0.5)
    shop.profiling._leave()
    shop.plane.engine.exit(job, 0)
    shop.plane.settle()
    assert shop.known(job).runs[0].phase is Phase.RUNNING
    shop.die()
    shop.profiling.step(shop.plane.now)
    [run] = shop.known(job).runs
    assert (run.phase, run.seconds) == (Phase.SUCCEEDED, 5.0)


def test_code_is_read_once_for_a_burst_of_jobs(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    digest = fingerprints.code_digest

    def counted(spec: Spec, *, containers: bool, contents: bool) -> str:
        names.append(spec.name)
        return digest(spec, containers=containers, contents=contents)

    monkeypatch.setattr(fingerprints, "code_digest", counted)
    for _ in range(4):
        shop.plane.submit("burst", run=("true",), workdir=str(shop.folder))
    shop.profiling.step(shop.plane.now)
    assert names == ["burst"]
    assert [profile.count for profile in shop.plane.store.find(PROFILES)] == [4]


def test_a_server_that_is_root_tells_nothing_of_contents_to_those_who_are_not(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files of one length and time: who may not read them learns nothing of whether they differ."""
    source = shop.folder / "train.py"

    def seen(text: str) -> Digests:
        source.write_text(text)
        os.utime(source, ns=(1, 1))
        spec = a_spec(run=("python", "train.py"), workdir=str(shop.folder))
        job = new_job(JobId("j"), ANN.name, spec, 0.0)
        return read(shop.plane.store, job, containers=False)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert seen("steps = 1") != seen("steps = 2"), "they run as the server does"
    shop.plane.store.put(USERS, replace(ANN, unix_user="ann"))
    assert seen("steps = 1") == seen("steps = 2")
    assert seen("steps = 1") != seen("steps = 10")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert seen("steps = 1") != seen("steps = 2")


def test_a_job_that_fails_says_nothing_of_how_long_it_lasts(shop: Shop) -> None:
    job = shop.submit()
    shop.watch(job, 5, memory=3e9)
    shop.finish(job, code=1)
    assert shop.known(job).duration is None
    assert shop.known(job).peak_memory == 3e9


def test_a_job_that_never_ran_leaves_nothing(shop: Shop) -> None:
    shop.submit(gpus=4)
    waits = shop.submit("true")
    shop.plane.do(lambda: shop.plane.services.actions.stop(ANN, waits))
    shop.profiling.step(shop.plane.now)
    assert {profile.count for profile in shop.plane.store.find(PROFILES)} == {1}
    assert shop.profiles.settled(waits) is None


def test_people_see_their_own_profiles_and_administrators_all(shop: Shop) -> None:
    job = shop.submit()
    shop.profiling.step(shop.plane.now)
    mine = shop.known(job)
    stranger = replace(ANN, name=UserName("eve"))
    assert shop.insight.profiles(ANN) == shop.insight.profiles(ADMIN) == [mine]
    assert shop.insight.profiles(stranger) == []
    assert shop.insight.profile(ANN, mine.fingerprint[:4]) == mine
    for who, words in ((stranger, mine.fingerprint), (ANN, "nothing"), (ANN, "")):
        with pytest.raises(NotFound):
            shop.insight.profile(who, words)


def test_its_thread_keeps_profiles_and_writes_them_when_it_is_closed(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.profiling._leave()
    shop.begin()
    shop.profiling._leave()
    shop.profiling.start()
    job = shop.plane.submit("resnet", run=("python", "train.py"), workdir=str(tmp_path))
    shop.profiling.close()
    shop.profiling.close()
    assert [run.job for run in shop.known(job).runs] == [job]
    shop.plane.close()
