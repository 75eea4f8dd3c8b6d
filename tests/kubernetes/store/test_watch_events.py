"""What is heard of the cluster, in whatever order it comes; no cluster is needed."""

from dataclasses import replace

from grus.kubernetes.client.resource_kinds import Object
from grus.model.jobs import Job
from grus.store import codec
from grus.store.kubernetes.watch_buffer import MOST_DELETED, News
from tests.store.builders import a_job

JOB = replace(a_job("j1"), version=1)


def an_object(uid: str, job: Job | None = JOB) -> Object:
    status = {} if job is None else {"record": codec.JOB.encode(job)}
    return {"metadata": {"namespace": "team-a", "name": "resnet", "uid": uid}, "status": status}


def listening() -> tuple[News, list[int]]:
    woken: list[int] = []
    return News(lambda: woken.append(1)), woken


def test_whoever_takes_is_woken_once_for_all_that_waits() -> None:
    news, woken = listening()
    for version in (1, 2):
        news.heard("MODIFIED", an_object("a", replace(JOB, version=version)))
    news.heard("ADDED", an_object("b", None))
    assert woken == [1]
    [item] = news.take().items.values()
    assert '"version":2' in item["status"]["record"]


def test_what_was_taken_comes_again_until_it_is_settled() -> None:
    news, _ = listening()
    news.heard("ADDED", an_object("a"))
    first = news.take()
    assert news.take() == first
    news.settled(first)
    assert not news.take()


def test_what_is_heard_while_older_news_is_being_settled_is_not_lost() -> None:
    news, _ = listening()
    news.heard("ADDED", an_object("a"))
    first = news.take()
    newer = an_object("a", replace(JOB, version=2))
    news.heard("MODIFIED", newer)
    second = news.take()
    news.settled(first)
    assert news.take() == second
    assert second.items == {"a": newer}


def test_a_deleted_object_takes_its_jobs_home_and_leaves_the_news_of_it() -> None:
    news, _ = listening()
    news.heard("ADDED", an_object("a"))
    news.heard("DELETED", an_object("a"))
    assert news.home(JOB.id) is None
    assert news.homeless([JOB.id]) == list(news.take().gone) == [JOB.id]


def test_the_answer_to_a_write_that_comes_after_the_deletion_brings_nothing_back() -> None:
    news, _ = listening()
    news.heard("ADDED", an_object("a"))
    news.heard("DELETED", an_object("a"))
    news.heard("MODIFIED", an_object("a", replace(JOB, version=2)))
    taken = news.take()
    assert list(taken.gone) == [JOB.id]
    assert not taken.items
    assert news.home(JOB.id) is None


def test_an_object_that_a_restored_cluster_has_again_is_there() -> None:
    news, _ = listening()
    for what in ("ADDED", "DELETED", "ADDED"):
        news.heard(what, an_object("a"))
    assert not news.take().gone
    assert news.home(JOB.id) is not None


def test_deletions_are_remembered_in_bounded_room() -> None:
    news, _ = listening()
    for number in range(MOST_DELETED + 2):
        news.heard("DELETED", an_object(str(number)))
    for number in (0, MOST_DELETED + 1):
        news.heard("MODIFIED", an_object(str(number)))
    assert list(news.take().items) == ["0"]


def test_a_job_that_has_another_object_by_now_is_not_gone() -> None:
    news, _ = listening()
    news.heard("ADDED", an_object("a"))
    news.heard("DELETED", an_object("a"))
    news.take()
    news.heard("ADDED", an_object("b"))
    assert not news.take().gone
    home = news.home(JOB.id)
    assert home is not None
    assert home.uid == "b"


def test_of_an_object_removed_here_nothing_more_is_heard() -> None:
    news, woken = listening()
    news.heard("ADDED", an_object("a"))
    news.settled(news.take())
    news.let_go(JOB.id)
    for what in ("MODIFIED", "DELETED"):
        news.heard(what, an_object("a"))
    assert not news.take()
    assert woken == [1]


def test_a_removal_that_the_watch_told_first_is_none_of_our_jobs_end() -> None:
    news, _ = listening()
    news.heard("ADDED", an_object("a"))
    news.heard("DELETED", an_object("a"))
    news.let_go(JOB.id)
    assert not news.take()
