"""What happens to one or two jobs, worked out by hand."""

from dataclasses import replace

import pytest

from grus.model.errors import BadInput
from grus.model.identifiers import NodeId
from grus.scheduler.queues.policies import POLICIES
from grus.simulator.cluster_spec import parse_nodes
from grus.simulator.events.decision_executor import Costs
from grus.simulator.simulator import Fault, Simulation, Underway
from tests.scheduler.builders import a_pool, a_queue
from tests.simulator.scenes import FREE, a_simulation, a_work, by_name, simulated


def test_a_job_starts_when_it_comes_and_ends_after_start_cost_and_duration() -> None:
    ran = simulated("1x4", [a_work("a", submit=7.0, duration=100.0, gpus=2)], costs=Costs(start=10.0))["a"]
    assert (ran.started, ran.ended, ran.waited) == (7.0, 117.0, 0.0)
    assert (ran.held, ran.useful) == (220.0, 200.0)


def test_a_job_waits_for_the_one_before_it() -> None:
    found = simulated("1x4", [a_work("a", gpus=4), a_work("b", submit=10.0, gpus=1, duration=5.0)])
    assert (found["b"].started, found["b"].ended, found["b"].waited) == (100.0, 105.0, 90.0)


def test_a_paused_job_keeps_what_it_did_and_pays_for_saving_and_for_starting_again() -> None:
    queues = a_queue("A", quota=2), a_queue("B", quota=2)
    works = [a_work("a", gpus=4, queue="A"), a_work("b", submit=50.0, gpus=2, queue="B", duration=30.0)]
    found = simulated("1x4", works, *queues, costs=Costs(start=10.0, pause=5.0))
    a, b = found["a"], found["b"]
    assert (b.started, b.ended) == (55.0, 95.0), "b waits until a has saved and left"
    # 40 of 100 seconds were done; it resumes when b is gone, boots, and does the other 60.
    assert (a.pauses, a.lost, a.waited, a.ended) == (1, 0.0, 40.0, 95.0 + 10.0 + 60.0)
    assert a.held == 4 * (55.0 + 70.0)


def test_a_job_that_cannot_save_inside_its_grace_loses_what_it_did_since_its_last_checkpoint() -> None:
    queues = a_queue("A", quota=2), a_queue("B", quota=2)
    works = [
        a_work("a", gpus=4, queue="A", save_every=20.0, grace=3.0),
        a_work("b", submit=50.0, gpus=2, queue="B", duration=30.0),
    ]
    found = simulated("1x4", works, *queues, costs=Costs(start=0.0, pause=5.0))
    a, b = found["a"], found["b"]
    assert b.started == 53.0, "killed at the end of its grace"
    assert a.lost == 4 * 10.0, "50 done, 40 saved"
    assert a.ended == 83.0 + 60.0


def test_a_fault_takes_a_job_back_to_its_last_checkpoint_and_the_repair_lets_it_go_on() -> None:
    works = [a_work("a", gpus=4, save_every=30.0)]
    found = simulated("1x4", works, faults=[Fault(70.0, NodeId("n1"), 200.0)])
    a = found["a"]
    assert (a.faults, a.lost, a.ended) == (1, 4 * 10.0, 200.0 + 40.0)


def test_a_job_without_checkpoints_begins_anew_after_a_fault() -> None:
    a = simulated("1x4", [a_work("a", gpus=1)], faults=[Fault(70.0, NodeId("n1"), 80.0)])["a"]
    assert (a.lost, a.ended) == (70.0, 180.0)


def test_a_fault_that_is_never_repaired_leaves_the_job_unfinished() -> None:
    a = simulated("1x4", [a_work("a")], faults=[Fault(70.0, NodeId("n1"))])["a"]
    assert a.ended is None
    assert a.completion is None


def test_two_overlapping_faults_of_a_node_are_over_when_both_are() -> None:
    faults = [Fault(10.0, NodeId("n1"), 50.0), Fault(20.0, NodeId("n1"), 40.0)]
    assert simulated("1x4", [a_work("a")], faults=faults)["a"].ended == 150.0


def test_an_elastic_job_takes_what_is_there_and_is_faster_with_more() -> None:
    found = simulated("1x4", [a_work("e", gpus=2, size=(2, 4))])
    assert found["e"].ended == 50.0, "twice the GPUs at efficiency 1"


def test_an_elastic_job_grows_when_another_ends_and_pays_boot_and_stall() -> None:
    works = [a_work("r", gpus=2, duration=40.0), a_work("e", submit=1.0, gpus=2, size=(2, 4))]
    costs = Costs(start=10.0, resize=2.0, leave=1.0, pause=0.0)
    found = simulated("1x4", works, costs=costs)
    assert found["r"].ended == 50.0
    e = found["e"]
    # Works from 11 on with two; at 50 two more come, which boot until 60; a stall of 2; then double speed.
    assert e.resizes == 1
    assert e.ended == 62.0 + (100.0 - 49.0) / 2
    assert e.held == 2 * 49.0 + 4 * (e.ended - 50.0)


def test_an_elastic_job_shrinks_for_a_waiting_minimum_and_its_gpus_are_free_when_they_are_left() -> None:
    works = [a_work("e", gpus=4, size=(2, 4)), a_work("r", submit=20.0, gpus=2, duration=10.0)]
    costs = Costs(start=0.0, resize=2.0, leave=3.0, pause=0.0)
    found = simulated("1x4", works, costs=costs)
    assert found["r"].started == 23.0
    e = found["e"]
    # 20 done at full speed; stall until 22; half speed until 33; grown again at once, with a stall of 2.
    done = 20.0 + 11.0 / 2
    assert e.ended == 35.0 + (100.0 - done)
    assert e.resizes == 2


def test_seats_that_still_boot_do_no_work_whatever_happens_meanwhile() -> None:
    works = [
        a_work("x", gpus=1, duration=20.0),
        a_work("y", gpus=1, duration=25.0),
        a_work("e", gpus=2, size=(2, 4), duration=100.0),
    ]
    found = simulated("1x4", works, costs=Costs(start=10.0, resize=0.0, leave=0.0, pause=0.0))
    # x leaves at 30, y at 35: two workers until 40, three until 45, then four.
    assert found["e"].ended == 45.0 + (100.0 - 30.0 - 5.0 * 1.5) / 2


def test_slow_types_of_gpu_take_longer() -> None:
    costs = Costs(start=0.0, pause=0.0, resize=0.0, leave=0.0, speeds={"T4": 0.5})
    assert simulated("1x4:T4", [a_work("a")], costs=costs)["a"].ended == 200.0
    assert simulated("1x4:V100", [a_work("a")], costs=costs)["a"].ended == 100.0


def test_a_slice_shares_its_gpu() -> None:
    found = simulated("1x1", [a_work("a", gpus=0.5), a_work("b", gpus=0.5), a_work("c", gpus=0.5)])
    assert sorted(ran.ended or 0.0 for ran in found.values()) == [100.0, 100.0, 200.0]


def test_jobs_that_are_under_way_go_on_from_where_they_are() -> None:
    early = a_simulation("1x4", [a_work("a", gpus=3), a_work("b", gpus=3)])
    nodes, queues = a_pool("1x4"), [a_queue("default", quota=4)]
    early._happen(0.0)
    early._decide()
    jobs = [early.snapshot.job(work.id) for work in early.arrivals]
    underway = [
        Underway(job, work, 30.0 if job.seats else 0.0)
        for job, work in zip(jobs, early.arrivals, strict=True)
        if job is not None
    ]
    found = by_name(Simulation(nodes, queues, [], underway=underway, begin=30.0, costs=FREE).run())
    assert (found["a"].ended, found["b"].ended) == (100.0, 200.0)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (a_work("big", gpus=5), "more than the pool could ever give it"),
        (a_work("lost", queue="nowhere"), "nowhere is not configured"),
        (a_work("greedy", dev=True, gpus=4, queue="small"), "must stay inside quota"),
    ],
)
def test_a_job_that_could_never_start_is_refused_before_anything_runs(work: object, words: str) -> None:
    queues = [a_queue("default", quota=2), a_queue("small", quota=2)]
    with pytest.raises(BadInput, match=words):
        a_simulation("1x4", [a_work("fine"), work], *queues)  # type: ignore[list-item]  # wrong on purpose


def test_progress_is_told_up_to_the_last_job() -> None:
    told: list[tuple[int, int]] = []
    works = [a_work(f"a{i}", duration=10.0 + i) for i in range(5)]
    a_simulation("1x2", works).run(lambda done, total: told.append((done, total)), every=2)
    assert told[-1] == (5, 5)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_reports_let_gpus_flow_to_the_job_that_uses_them_best() -> None:
    """Two elastic jobs that are alike but for how well they scale; without reports they share evenly."""

    def ends(reports: bool) -> tuple[float, float]:
        works = [
            a_work(name, duration=3600.0, size=(1, 8), efficiency=efficiency, reports=reports)
            for name, efficiency in (("steep", 0.95), ("flat", 0.05))
        ]
        found = simulated("1x8", works, costs=Costs())
        return found["steep"].ended or 0.0, found["flat"].ended or 0.0

    told, untold = ends(True), ends(False)
    assert told[0] < 0.85 * untold[0]
    assert sum(told) < sum(untold)


def test_the_policy_decides_who_waits() -> None:
    """The shortest first ends more jobs early than the order of submission does."""
    works = [a_work(f"j{n}", duration=float(d)) for n, d in enumerate((5000, 300, 20))]
    pool, queues = a_pool("1x1"), [a_queue("default", quota=1)]
    first = {name: Simulation(pool, queues, works, policy=POLICIES[name]).run() for name in ("fifo", "srtf")}
    mean = {name: sum(ran.ended or 0.0 for ran in done.jobs) for name, done in first.items()}
    assert mean["srtf"] < 0.5 * mean["fifo"]


def test_fast_gpus_go_to_the_job_that_they_make_fastest() -> None:
    """Both come together and one big GPU is there: the mean end is earlier when it is not the first's."""
    nodes = (*parse_nodes("1x1xA100"), *parse_nodes("1x1xT4", first=1))
    first = replace(a_work("first", duration=1000.0, reports=True), types=(("A100", 1.1), ("T4", 1.0)))
    second = replace(a_work("second", duration=1000.0, reports=True), types=(("A100", 4.0), ("T4", 1.0)))
    done = Simulation(nodes, [a_queue("default", quota=2)], [first, second], costs=FREE).run()
    ends = {ran.work.id: ran.ended for ran in done.jobs}
    assert ends == {"first": 1000.0, "second": 250.0}


@pytest.mark.parametrize("start", [140.0, 200.0, 300.0])
def test_a_reporting_job_with_a_long_start_up_grows_when_another_ends(start: float) -> None:
    works = [
        a_work("r", gpus=6, duration=3600.0),
        a_work("e", gpus=2, size=(2, 8), duration=86_400.0, reports=True),
    ]
    found = simulated("1x8", works, costs=Costs(start=start, resize=1.0, leave=1.0, pause=5.0))
    ended = found["e"].ended
    assert ended is not None
    assert ended < 86_400.0 / 3
    assert found["e"].resizes <= 3
