"""Tags are in the store while they are true: written on change only, told with an expiry, removed after."""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace

from grus.controlplane.monitoring.activity_tag_store import LASTING, PAUSE, TagKeeper, by_key, keys_of
from grus.controlplane.monitoring.telemetry_collector import DetectedWorkloads
from grus.model.activity_labels import Tag, TrainingStage, WorkloadKind
from grus.model.errors import StoreFailed
from grus.model.identifiers import DeviceId, JobId, NodeId
from grus.model.jobs import Seat
from grus.model.resources import GPU
from grus.store.memory import MemoryStore
from grus.telemetry.samples import Subject
from tests.scheduler.builders import a_job

JOB = "job/j1"


class CountingStore(MemoryStore):
    """Counts writes; can fail, or take its time."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[dict[str, Tag | None]] = []
        self.fails = False
        self.slow: Future[None] | None = None

    def put_tags(self, tags: Mapping[str, Tag | None]) -> "Future[None]":
        self.writes.append(dict(tags))
        if self.slow is not None:
            return self.slow
        if self.fails:
            failed: Future[None] = Future()
            failed.set_exception(StoreFailed("the disk is full"))
            return failed
        return super().put_tags(tags)


def a_tag(kind: WorkloadKind = WorkloadKind.TRAINING, now: float = 0.0, **given: object) -> Tag:
    return Tag(kind=kind, at=0.0, expires=now + 30.0, **given)  # type: ignore[arg-type]  # keywords of many types


class Keeping:
    """A keeper that is told once a second."""

    def __init__(self, store: CountingStore | None = None) -> None:
        self.store = store or CountingStore()
        self.keeper = TagKeeper(self.store)
        self.now = 0.0

    def tell(self, tag: Tag | None = None, seconds: int = 1, present: tuple[str, ...] = (JOB,)) -> int:
        """For so long; how many writes that made."""
        before = len(self.store.writes)
        for _ in range(seconds):
            self.now += 1.0
            told = {} if tag is None else {JOB: replace(tag, expires=self.now + 30.0)}
            self.keeper.keep(told, present, self.now)
        return len(self.store.writes) - before


def test_a_tag_that_does_not_change_is_written_once() -> None:
    keeping = Keeping()
    assert keeping.tell(a_tag(), seconds=60) == 1
    assert keeping.store.tags()[JOB].kind is WorkloadKind.TRAINING
    assert keeping.keeper.tags(keeping.now) == keeping.store.tags()


def test_it_is_vouched_for_longer_than_it_takes_to_renew_it() -> None:
    keeping = Keeping()
    writes = keeping.tell(a_tag(), seconds=int(3 * LASTING))
    assert writes <= 6
    assert keeping.store.tags()[JOB].live(keeping.now + LASTING / 2 - 2)
    assert not keeping.store.tags()[JOB].live(keeping.now + LASTING)


def test_small_changes_of_figures_are_no_news_and_a_change_of_kind_is_at_once() -> None:
    keeping = Keeping()
    keeping.tell(a_tag(period=10.0, utilisation=0.50, note="over 10 s"), seconds=5)
    assert keeping.tell(a_tag(period=10.3, utilisation=0.55, note="over 12.5 s"), seconds=5) == 0
    assert keeping.tell(a_tag(WorkloadKind.IDLE)) == 1
    assert keeping.tell(a_tag(WorkloadKind.TRAINING)) == 1, "however soon"


def test_news_of_a_tag_that_was_just_written_wait_a_moment_and_come_together() -> None:
    keeping = Keeping()
    stages = [TrainingStage.TRAINING, TrainingStage.EVALUATION, TrainingStage.CHECKPOINT]
    writes = sum(keeping.tell(a_tag(stage=stages[number % 3])) for number in range(30))
    assert 30 / (PAUSE + 2) <= writes <= 1 + 30 / PAUSE


def test_a_tag_that_is_no_longer_true_is_removed() -> None:
    keeping = Keeping()
    keeping.tell(a_tag(), seconds=2)
    assert keeping.tell(seconds=2) == 1
    assert keeping.store.tags() == {}
    keeping.tell()
    assert keeping.keeper.tags(keeping.now) == {}


def test_a_new_server_keeps_what_the_last_one_said_until_it_knows_better_or_the_job_is_gone() -> None:
    first = Keeping()
    first.tell(a_tag(), seconds=2)
    second = Keeping(first.store)
    second.now = first.now
    assert second.tell(seconds=30) == 0, "it runs, and was not looked at for long enough"
    assert second.keeper.tags(second.now)[JOB].kind is WorkloadKind.TRAINING
    assert second.tell(seconds=2, present=()) == 1
    assert first.store.tags() == {}


def test_what_expired_while_nobody_served_is_removed() -> None:
    first = Keeping()
    first.tell(a_tag(), seconds=2)
    second = Keeping(first.store)
    second.now = first.now + LASTING
    assert second.keeper.tags(second.now) == {}
    second.tell(seconds=2)
    assert first.store.tags() == {}


def test_what_is_shown_has_lasted_and_a_write_under_way_holds_nobody_up() -> None:
    keeping = Keeping()
    keeping.store.slow = Future()
    assert keeping.tell(a_tag(), seconds=3) == 1
    assert keeping.keeper.tags(keeping.now) == {}
    keeping.store.slow.set_result(None)
    keeping.store.slow = None
    keeping.tell(a_tag())
    assert JOB in keeping.keeper.tags(keeping.now)


def test_a_write_that_fails_is_made_again() -> None:
    keeping = Keeping()
    keeping.store.fails = True
    keeping.tell(a_tag(), seconds=3)
    keeping.store.fails = False
    keeping.tell(a_tag(), seconds=2)
    assert keeping.store.tags()[JOB].kind is WorkloadKind.TRAINING


def test_keys_are_those_of_jobs_and_whole_gpus() -> None:
    tag = a_tag()
    gpu = Subject(NodeId("n"), DeviceId("n-0"))
    worker = Subject(NodeId("n"), job=JobId("j1"))
    seen = DetectedWorkloads({gpu: tag, gpu._replace(instance="1"): tag, worker: tag}, {JobId("j1"): tag})
    assert set(by_key(seen)) == {"gpu/n-0", "job/j1"}
    job = replace(a_job("a"), seats=(Seat("worker", 0, NodeId("n"), (DeviceId("n-0"),), GPU),))
    assert keys_of([job]) == {f"job/{job.id}", "gpu/n-0"}
