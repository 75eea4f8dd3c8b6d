"""The fixtures that scheduling must hold exactly, played through in the simulator."""

import random

from grus.simulator.events.decision_executor import Costs
from tests.scheduler.builders import a_queue
from tests.simulator.scenes import a_simulation, a_work, by_name, held_at, running_at

COSTS = Costs(start=1.0, pause=2.0, resize=0.5, leave=1.0)


def test_the_one_over_quota_is_paused_for_one_inside_and_resumes_when_there_is_room() -> None:
    works = [
        a_work("a2", queue="A", gpus=2, submit=0.0, duration=500.0),
        a_work("a1", queue="A", submit=1.0, duration=1000.0),
        a_work("b1", queue="B", submit=2.0, duration=1000.0),
        a_work("b2", queue="B", submit=100.0, duration=1000.0),
    ]
    result = a_simulation("1x4", works, a_queue("A", quota=2), a_queue("B", quota=2), costs=COSTS).run()
    assert running_at(result, 99.0) == {"a2", "a1", "b1"}
    assert running_at(result, 103.0) == {"a2", "b1", "b2"}
    assert running_at(result, 502.0) == {"a1", "b1", "b2"}
    assert by_name(result)["a1"].pauses == 1


def test_shares_stay_equal_while_both_queues_have_work() -> None:
    works = [a_work(f"a{i}", queue="A", duration=300.0 + 7 * i) for i in range(4)]
    works += [a_work(f"a{i}", queue="A", submit=1.0, duration=200.0) for i in range(4, 12)]
    works += [a_work(f"b{i}", queue="B", submit=100.0, duration=130.0 + 11 * i) for i in range(4)]
    works += [a_work(f"b{i}", queue="B", submit=101.0, duration=170.0) for i in range(4, 12)]
    result = a_simulation("1x4", works, a_queue("A", quota=1), a_queue("B", quota=1), costs=COSTS).run()
    assert held_at(result, 99.0, "A") == 4
    busy = [at for at in range(110, 700, 3) if held_at(result, at) == 4]
    assert len(busy) > 150
    assert {(held_at(result, at, "A"), held_at(result, at, "B")) for at in busy} == {(2, 2)}


def test_a_rigid_job_over_quota_is_paused_for_one_inside() -> None:
    works = [
        a_work("a", queue="A", gpus=4, duration=1000.0),
        a_work("b", queue="B", gpus=2, submit=50.0, duration=100.0),
    ]
    result = a_simulation("1x4", works, a_queue("A", quota=2), a_queue("B", quota=2), costs=COSTS).run()
    assert running_at(result, 60.0) == {"b"}
    assert by_name(result)["a"].pauses == 1


def test_a_dev_job_inside_quota_is_never_paused_and_one_beyond_it_waits_beside_idle_gpus() -> None:
    works = [
        a_work("d1", queue="A", gpus=2, dev=True, duration=1000.0),
        a_work("d2", queue="A", gpus=1, dev=True, submit=1.0, duration=10.0),
        a_work("b", queue="B", gpus=2, submit=50.0, duration=100.0),
    ]
    result = a_simulation("1x4", works, a_queue("A", quota=2), a_queue("B", quota=2), costs=COSTS).run()
    found = by_name(result)
    assert found["d1"].pauses == 0
    assert found["d2"].started == found["d1"].ended
    assert held_at(result, 30.0) == 2


def test_starts_of_two_queues_interleave_whoever_came_first() -> None:
    works = [a_work(f"a{i:02}", queue="A", submit=0.0, duration=50.0) for i in range(50)]
    works += [a_work(f"b{i:02}", queue="B", submit=1.0, duration=50.0) for i in range(25)]
    result = a_simulation("1x4", works, a_queue("A", quota=2), a_queue("B", quota=2), costs=COSTS).run()
    starts = sorted((ran.started or 0.0, str(ran.work.queue)) for ran in result.jobs)
    while_both = [queue for at, queue in starts if 10.0 < at < 500.0]
    assert abs(while_both.count("A") - while_both.count("B")) <= 2


def test_a_gang_starts_whole_or_not_at_all_and_an_elastic_one_grows_without_a_restart() -> None:
    works = [
        a_work("small", gpus=1, duration=100.0),
        a_work("gang", gpus=4, submit=1.0, duration=50.0),
    ]
    found = by_name(a_simulation("1x4", works, costs=COSTS).run())
    assert found["gang"].started == found["small"].ended
    works[1] = a_work("elastic", gpus=2, size=(2, 4), submit=1.0, duration=400.0)
    result = a_simulation("1x4", works, costs=COSTS).run()
    elastic = by_name(result)["elastic"]
    assert [span.gpus for span in elastic.spans] == [3, 4]
    assert (elastic.pauses, elastic.resizes) == (0, 1)


def test_reserved_gpus_are_never_lent() -> None:
    works = [a_work(f"b{i}", queue="B", duration=50.0) for i in range(8)]
    queues = a_queue("A", quota=2, reserved=2), a_queue("B", quota=2)
    result = a_simulation("1x4", works, *queues, costs=COSTS).run()
    assert max(moment.held for moment in result.moments) == 2
    assert result.violations == ()


def test_two_rigid_jobs_of_the_whole_pool_run_one_after_the_other_without_swapping() -> None:
    works = [
        a_work("a", queue="A", gpus=4, duration=500.0),
        a_work("b", queue="B", gpus=4, submit=1.0, duration=500.0),
    ]
    result = a_simulation("1x4", works, a_queue("A", quota=2), a_queue("B", quota=2), costs=COSTS).run()
    found = by_name(result)
    assert found["a"].pauses == found["b"].pauses == 0
    assert found["b"].started == found["a"].ended


def test_five_equal_queues_each_run_in_turn() -> None:
    names = ["A", "B", "C", "D", "E"]
    lengths = random.Random(1)
    works = [a_work(f"{n}{i:02}", queue=n, duration=lengths.uniform(9, 11)) for n in names for i in range(40)]
    result = a_simulation("1x4", works, *(a_queue(n, quota=0) for n in names), costs=COSTS).run()
    early = [str(ran.work.queue) for ran in result.jobs if (ran.started or 0.0) < 300.0]
    counts = [early.count(name) for name in names]
    assert max(counts) - min(counts) <= 2


def test_an_elastic_job_shrinks_for_another_of_its_queue() -> None:
    works = [
        a_work("wide", gpus=8, size=(2, 8), duration=1000.0),
        a_work("second", gpus=2, size=(2, 8), submit=100.0, duration=50.0),
    ]
    result = a_simulation("1x8", works, costs=COSTS).run()
    assert held_at(result, 99.0) == 8
    wide = by_name(result)["wide"]
    sizes = [span.gpus for span in wide.spans if span.begin < 110.0]
    assert sizes == [8, 6] or (sizes[0], sizes[-1]) == (8, 6)
