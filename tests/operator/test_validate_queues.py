"""Which GpuQueues count, and what is told of the others."""

from grus.kubernetes.api_objects.gpu_queues import accepted_queues
from grus.model.identifiers import QueueName
from grus.model.resources import GPU
from grus.operator.namespaces import openness, refused
from grus.operator.validate_queues import beyond_pool, judge, leave
from tests.operator.objects import a_gpu_queue


def test_parents_and_children_are_taken_in_whatever_order_they_come() -> None:
    found = judge([a_gpu_queue("a", parent="z", quota=1), a_gpu_queue("z", quota=2)], {})
    assert all(not verdict.mistakes and verdict.accepted for verdict in found.values())


def test_an_edit_that_makes_no_sense_changes_nothing_and_says_all_that_is_wrong() -> None:
    good = a_gpu_queue("a", accepted=True, quota=2)
    bad = {**good, "spec": {"quota": -1, "weight": 0, "max_runtime": "soon"}}
    verdict = judge([bad], {})["a"]
    assert verdict.accepted == {"quota": 2}
    assert len(verdict.mistakes) == 3
    assert [queue.quota.total for queue in accepted_queues([bad])] == [2 * GPU]


def test_a_queue_that_would_break_the_tree_waits_without_disturbing_the_others() -> None:
    objects = [
        a_gpu_queue("top", accepted=True, quota=4),
        a_gpu_queue("child", accepted=True, parent="top", quota=3),
        a_gpu_queue("greedy", parent="top", quota=2),
        a_gpu_queue("lost", parent="nowhere"),
        a_gpu_queue("round", parent="trip"),
        a_gpu_queue("trip", parent="round"),
        a_gpu_queue("fine", quota=1),
    ]
    found = judge(objects, {})
    assert found["fine"].accepted == {"quota": 1}
    assert "sum of its children" in found["greedy"].mistakes[0]
    assert "names no queue" in found["lost"].mistakes[0]
    for name in ("greedy", "lost", "round", "trip"):
        assert found[name].accepted is None
        assert found[name].mistakes


def test_a_parent_and_its_child_may_shrink_and_grow_together() -> None:
    top = a_gpu_queue("top", accepted=True, quota=4)
    child = a_gpu_queue("child", accepted=True, parent="top", quota=4)
    for quota in (1, 8):
        changed = [{**top, "spec": {"quota": quota}}, {**child, "spec": {"parent": "top", "quota": quota}}]
        assert all(not verdict.mistakes for verdict in judge(changed, {}).values())


def test_a_queue_with_jobs_does_not_become_a_branch() -> None:
    objects = [a_gpu_queue("busy", accepted=True, quota=4), a_gpu_queue("new", parent="busy")]
    assert "3 unfinished jobs" in judge(objects, {QueueName("busy"): 3})["new"].mistakes[0]
    assert not judge(objects, {})["new"].mistakes


def test_a_queue_whose_parent_is_gone_does_not_count() -> None:
    orphan = a_gpu_queue("orphan", accepted=True, parent="gone")
    grandchild = a_gpu_queue("grandchild", accepted=True, parent="orphan")
    assert accepted_queues([orphan, grandchild]) == []


def test_promises_beyond_the_pool_are_told_but_count() -> None:
    queues = accepted_queues([a_gpu_queue("a", accepted=True, quota=6)])
    assert "the pool has 4" in beyond_pool(queues, 4 * GPU)
    assert beyond_pool(queues, 6 * GPU) == ""


def test_a_deleted_queue_stays_while_it_is_in_use() -> None:
    name = QueueName("a")
    child = a_gpu_queue("b", parent="a")
    assert "b" in leave(name, [child], [])
    assert "team/train" in leave(name, [], ["team/train"])
    assert leave(name, [], []) == ""


def test_namespaces_by_name_by_label_and_by_the_queue_above() -> None:
    known = {
        QueueName(one["metadata"]["name"]): openness(one)
        for one in (
            a_gpu_queue("named", accepted=True, namespaces={"names": ["a", "b"]}),
            a_gpu_queue("labelled", accepted=True, namespaces={"labels": {"team": "x", "gpu": "yes"}}),
            a_gpu_queue("below", accepted=True, parent="named"),
            a_gpu_queue("open", accepted=True),
        )
    }

    def may(queue: str, namespace: str, **labels: str) -> bool:
        return refused(QueueName(queue), namespace, labels, known) is None

    assert may("named", "a")
    assert not may("named", "c")
    assert may("below", "b")
    assert not may("below", "c")
    assert may("labelled", "c", team="x", gpu="yes")
    assert not may("labelled", "c", team="x")
    assert may("open", "c")
    why = refused(QueueName("below"), "c", {}, known)
    assert why is not None
    assert "not open to namespace c (by its parent named)" in why.rule


def test_a_queue_that_is_being_deleted_takes_nothing_new() -> None:
    going = a_gpu_queue("a", accepted=True)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    why = refused(QueueName("a"), "team", {}, {QueueName("a"): openness(going)})
    assert why is not None
    assert "being deleted" in why.rule
