"""Histories that once went wrong, each cut down to what matters; found by random histories."""

from dataclasses import replace

import pytest

from grus.model.identifiers import JobId
from grus.model.jobs import PauseCause, Phase
from grus.model.nodes import Health
from grus.scheduler.cycle import decide
from grus.scheduler.state.snapshot import Snapshot
from tests.scheduler.builders import a_job, a_pool, a_queue, lose
from tests.scheduler.changes import change_is_true, why
from tests.scheduler.world import World, jobs_of


def end_all(world: World) -> None:
    """Time passes, and everything that runs ends well, again and again."""
    for _ in range(2 * len(world.jobs) + 2):
        world.advance(700)
        for name in sorted(world.running()):
            world.finish(name)
    world.advance(700)


def test_a_gang_that_the_healthy_pool_cannot_hold_keeps_nobody_waiting() -> None:
    """Three of four GPUs are lost: the gang of four waits for their return, not everybody with it."""
    world = World("1x4", a_queue("A", quota=4), a_queue("B"))
    world.submit(a_job("gang", queue="A", gpus=4)).lose("n1-1", "n1-2", "n1-3").settle().advance(700)
    world.run(a_job("b1", queue="B")).advance(700)
    assert world.running() == {"b1"}


def test_a_gang_of_a_lost_type_is_no_reason_to_swap_others() -> None:
    """Its reservation is for ever due; jobs that were let past it must not be paused and started in turn."""
    world = World("1x3+1x2:T4", a_queue("A", quota=5)).set_nodes(lose(World("1x3+1x2:T4").nodes, "n2-0"))
    world.submit(a_job("lost", queue="A", gpus="T4:2"))
    world.submit(*[a_job(f"e{i}", queue="A", gpus="2..5") for i in range(3)]).advance(700)
    for _ in range(4):
        world.finish(min(world.running())).advance(700)
        if not world.running():
            break


def test_the_guard_does_not_protect_a_queues_own_jobs_from_a_request_inside_quota() -> None:
    """The urgent minimum is inside the quota of 2; the limit of 5 makes it take a young job of its own."""
    world = World("1x10", a_queue("A", quota=2, limit=5))
    world.run(a_job("a3", queue="A", gpus=3), a_job("a1", queue="A")).advance(20)
    world.run(a_job("urgent", queue="A", gpus="2..8", sizes=[2, 4, 8], priority=60))
    assert "urgent" in world.running()


def test_a_never_preempted_slice_counts_as_its_share_of_the_device_it_is_put_on() -> None:
    """8 GB are a tenth of an A100, but two thirds of an RTX3060, where dev jobs go: one more is enough."""
    world = World("1x3:RTX3060+1x1:A100", a_queue("A", quota=2))
    world.submit(a_job("d0", queue="A", type="dev"))
    world.submit(*[a_job(f"d{i}", queue="A", gpus="8GB", type="dev") for i in (1, 2)]).settle()


def test_a_preemptor_gets_what_its_victims_left() -> None:
    """An urgent gang pauses two of its queue; they must not start again in its place."""
    world = World(
        "2x1:T4+1x1:A100+2x2:RTX3060",
        a_queue("P", quota=5),
        a_queue("P.A", quota=1, parent="P"),
        a_queue("Q", quota=2),
        a_queue("Q.A", quota=2, parent="Q"),
    )
    world.submit(*jobs_of("Q.A", 3)).step()
    world.submit(a_job("urgent", queue="Q.A", gpus="1..8", sizes=[3, 6], priority=60))
    world.submit(*jobs_of("P.A", 2), a_job("timed", queue="P.A", max_runtime=100.0)).advance(700)


def test_who_started_last_is_known_of_paused_jobs_too() -> None:
    """A snapshot built anew after a restart decides the same: the last start is on the jobs."""
    world = World("2x1:RTX3060+1x2:T4+1x2:A100", a_queue("A", quota=3), a_queue("B", quota=3)).cordon("n2")
    world.submit(a_job("wide", queue="A", gpus="3..8")).step()
    world.submit(*jobs_of("B", 2), a_job("urgent", queue="A", priority=75)).settle()


@pytest.mark.parametrize("name", ["dev", "gang"])
def test_a_change_that_the_configuration_forbids_is_not_named(name: str) -> None:
    """All quota is given away: raising a queue's would be refused, so it starts nothing."""
    world = World("2x2", a_queue("A", quota=4), a_queue("B"))
    world.run(a_job("dev", queue="B", type="dev"), a_job("gang", queue="A", gpus=4, priority=10))
    world.run(a_job("other", queue="A", gpus=3))
    if name in world.waiting():
        change_is_true(world, name)


def test_nothing_is_called_reserved_where_nothing_is() -> None:
    """A gang larger than what is free waits for GPUs, not for somebody's reserved ones."""
    world = World("1x6", a_queue("A", quota=1)).run(a_job("e", queue="A", gpus="3..4"))
    world.run(a_job("gang", queue="A", gpus=5))
    assert why(world, "gang").code != "reserved"


def test_waiting_behind_more_important_minima_is_not_swapping() -> None:
    """Quota 1, two urgent elastic jobs over it hold all: a small job inside quota waits and nobody moves."""
    world = World("1x4", a_queue("A", quota=1))
    world.submit(*[a_job(f"u{i}", queue="A", gpus="2..4", priority=75) for i in (1, 2)]).settle()
    world.submit(a_job("small", queue="A")).advance(700)
    assert world.running() == {"u1", "u2"}


def test_sizes_of_a_gang_with_a_reservation_do_not_swap() -> None:
    """Mixed types, a cordoned node, elastic gangs and one that ended: everything comes to rest."""
    world = World("2x4:A100+2x2:T4+2x3:RTX3060", a_queue("A", quota=8, limit=10)).cordon("n1")
    world.submit(a_job("j1", queue="A", gpus=2), a_job("j2", queue="A"))
    world.submit(a_job("j3", queue="A", gpus="2..4", one_node=True), a_job("j4", queue="A", gpus="3..5"))
    world.settle()
    world.submit(a_job("j6", queue="A", gpus="2..7")).stop("j2").submit(a_job("j7", queue="A"))
    for _ in range(8):
        world.advance(700)
        for name in sorted(world.running()):
            world.finish(name)
    assert not world.waiting()


def test_a_quota_taken_from_a_running_queue_does_not_make_two_queues_swap() -> None:
    world = World("2x4:A100", a_queue("A", quota=5, weight=0.5), a_queue("B", quota=3, limit=4))
    world.submit(*jobs_of("B", 2), a_job("wide", queue="A", gpus="3..8", one_node=True)).settle()
    world.set_queue(a_queue("B", quota=1, limit=4))
    world.submit(*[a_job(f"u{i}", queue="B", gpus="2..7", priority=75) for i in (1, 2)]).advance(700)
    for _ in range(6):
        for name in sorted(world.running()):
            world.finish(name)
        world.advance(700)
    assert not world.waiting()


def test_an_urgent_gang_over_quota_and_its_queues_own_jobs_inside_it_do_not_swap() -> None:
    """The gang of 3 is over the quota of 2, the singles are inside: whoever has the right, it stays so."""
    world = World("2x3", a_queue("A", quota=2, limit=4))
    world.submit(*jobs_of("A", 2), a_job("urgent", queue="A", gpus=3, priority=75)).advance(700)


def test_urgent_elastic_gangs_and_singles_of_one_queue_do_not_swap() -> None:
    world = World("2x4", a_queue("A", quota=3, limit=6, weight=0.5), a_queue("B", quota=1))
    world.submit(*jobs_of("A", 3), *[a_job(f"u{i}", queue="A", gpus="3..6", priority=60) for i in range(3)])
    world.submit(a_job("d1", queue="B", type="dev"), a_job("d2", queue="B", gpus="1..4", type="dev"))
    for _ in range(4):
        world.advance(700)
        for name in sorted(world.running()):
            world.finish(name)


def test_at_its_limit_an_urgent_request_inside_quota_takes_a_young_job_of_its_own_queue() -> None:
    world = World("2x3", a_queue("A", quota=3, limit=4)).submit(*jobs_of("A", 4)).settle()
    world.run(a_job("urgent", queue="A", priority=75))
    assert "urgent" in world.running()


def test_inside_quota_more_than_twice_the_request_may_be_evicted_from_the_own_queue() -> None:
    """The quota was cut to 4: two urgent singles fill it first; gangs of 3 are over it and give way."""
    world = World("1x10", a_queue("A", quota=10)).run(*jobs_of("A", 3, gpus="3..7"))
    world.set_queue(a_queue("A", quota=4)).settle()
    world.submit(*[a_job(f"u{i}", queue="A", priority=60) for i in range(2)]).advance(700)
    assert {"u0", "u1"} <= world.running()


def test_raising_a_quota_is_named_only_if_it_helps_after_a_loss() -> None:
    """With a GPU lost the effective quota stays below the configured one: the named change must reckon so."""
    world = World("1x6", a_queue("A", quota=4), a_queue("B", quota=1), a_queue("C", quota=1)).lose("n1-5")
    world.run(a_job("d", queue="C", type="dev"))
    change_is_true(world, "d")


def test_who_started_last_is_remembered_when_the_pool_changes() -> None:
    """A device that heals, or a node that is cordoned, does not change whose turn it is."""
    world = World("2x2", a_queue("A", quota=2), a_queue("B", quota=2)).run(a_job("a1", queue="A"))
    world.finish("a1").submit(a_job("a2", queue="A")).set_nodes(world.nodes)
    world.submit(a_job("b1", queue="B")).advance(700)


def test_a_raised_quota_that_takes_from_a_sibling_is_reckoned_with_the_loss() -> None:
    """Two of six GPUs are lost: whatever is named as the cheapest change starts the job."""
    world = World(
        "2x3",
        a_queue("A", quota=2),
        a_queue("P", quota=2),
        a_queue("P.A", quota=2, parent="P"),
        a_queue("P.B", parent="P"),
    ).lose("n2-1", "n2-2")
    world.submit(*jobs_of("P.B", 1), *jobs_of("P.A", 4)).settle()
    for name in sorted(world.waiting()):
        change_is_true(world, name)


def test_a_raised_priority_is_named_only_if_it_starts_the_job() -> None:
    world = World(
        "2x3:RTX3060+1x4:T4+2x2:A100",
        a_queue("A"),
        a_queue("P", quota=12),
        a_queue("P.A", quota=2, parent="P"),
        a_queue("B", quota=2, reserved=1, weight=2.0),
    )
    world.submit(a_job("j0", queue="P.A", gpus="3..5"), a_job("j5", queue="P.A", gpus="2..5"))
    world.submit(*[a_job(f"s{i}", queue="A", gpus="1..8", sizes=[2, 4, 8]) for i in range(2)]).advance(61)
    world.submit(a_job("timed", queue="B", gpus="3..6", max_runtime=100.0))
    world.submit(a_job("w", queue="B", gpus="3..6")).settle()
    for name in sorted(world.waiting()):
        change_is_true(world, name)


def test_every_waiting_slice_can_be_explained() -> None:
    """A slice that would be within the limit on a big GPU, and beyond it on a small one."""
    world = World("2x1:T4+1x1:A100+2x4:RTX3060", a_queue("A", quota=2, limit=5))
    world.submit(*jobs_of("A", 2), a_job("s", queue="A", gpus="8GB"))
    world.submit(a_job("w", queue="A", gpus="6GB", priority=10), *jobs_of("A", 2, first=3)).settle()
    for name in sorted(world.waiting()):
        change_is_true(world, name)


def test_a_gang_that_others_reserved_gpus_keep_out_for_ever_holds_nothing_back() -> None:
    """Scaled to at least 4 of a pool of 4 of which one is reserved for another: it waits alone."""
    world = World("1x4", a_queue("A", quota=2), a_queue("B", quota=2, reserved=1), a_queue("C"))
    world.run(a_job("wide", queue="A", gpus="1..5")).pause("wide").settle()
    world.scale("wide", 4, 5).resume("wide").advance(700)
    world.run(a_job("c", queue="C")).advance(700)
    assert "c" in world.running()


def test_a_slice_a_single_and_an_elastic_job_on_three_gpus_come_to_rest() -> None:
    world = World("2x2", a_queue("P", quota=2), a_queue("P.A", parent="P"), a_queue("Q", quota=2))
    world.submit(a_job("slice", queue="P.A", gpus="8GB")).lose("n1-1")
    world.submit(a_job("single", queue="P.A"), a_job("wide", queue="Q", gpus="2..5")).advance(700)


def test_an_urgent_gang_without_quota_beside_elastic_jobs_comes_to_rest() -> None:
    world = World("2x3", a_queue("A", quota=6), a_queue("B"), a_queue("C"))
    world.submit(a_job("a1", queue="A"), a_job("b1", queue="B"))
    world.submit(a_job("urgent", queue="B", gpus=4, priority=60))
    world.submit(*[a_job(f"e{i}", queue="A", gpus="1..2") for i in range(2)], a_job("b2", queue="B"))
    world.submit(a_job("a2", queue="A"), a_job("sized", queue="B", gpus="1..8", sizes=[2, 4, 8]))
    world.submit(a_job("wide", queue="C", gpus="1..8"))
    for _ in range(6):
        world.advance(700)
        for name in sorted(world.running()):
            world.finish(name)
    assert not world.waiting()


def test_when_to_wake_does_not_depend_on_the_order_of_arrival() -> None:
    world = World("2x4", a_queue("A", quota=4, limit=5))
    world.submit(*[a_job(f"s{i}", queue="A", gpus="1..8", sizes=[3, 6], priority=60) for i in range(2)])
    world.submit(*jobs_of("A", 2)).settle()
    world.submit(a_job("urgent", queue="A", gpus="3..6", priority=75)).settle()


def test_a_cordoned_node_under_an_elastic_job_comes_to_rest() -> None:
    world = World("2x3", a_queue("P", quota=6), a_queue("P.A", quota=2, parent="P"), a_queue("Q"))
    world.submit(*jobs_of("P.A", 2), a_job("wide", queue="Q", gpus="1..6")).cordon("n1")
    world.submit(*jobs_of("P.A", 1, first=3)).advance(61)


def test_halves_and_an_elastic_gang_of_childless_quota_come_to_rest() -> None:
    world = World(
        "2x3",
        a_queue("P", quota=3),
        a_queue("P.A", parent="P"),
        a_queue("Q", quota=1),
        a_queue("Q.A", parent="Q", weight=0.5),
        a_queue("Q.B", parent="Q"),
    )
    world.submit(a_job("wide", queue="Q.B", gpus="3..7"), *jobs_of("Q.A", 2))
    world.submit(*jobs_of("P.A", 3, gpus=0.5)).advance(700)
    for _ in range(4):
        for name in sorted(world.running()):
            world.finish(name)
        world.advance(700)


def test_an_urgent_job_inside_quota_is_served_beside_a_slice_of_its_own_queue() -> None:
    """P.B's urgent whole GPU against its own half and P.A's borrowed GPU and half."""
    world = World(
        "1x2", a_queue("P", quota=2), a_queue("P.A", parent="P"), a_queue("P.B", quota=1, parent="P")
    )
    world.submit(a_job("a1", queue="P.A"), a_job("a2", queue="P.A", gpus=0.5))
    world.submit(a_job("b1", queue="P.B", gpus="8GB")).settle()
    world.submit(a_job("urgent", queue="P.B", priority=75))
    world.set_queue(a_queue("P.A", quota=1, parent="P")).settle()


def test_asking_for_less_is_named_only_if_it_starts_the_job() -> None:
    world = World(
        "1x4:A100+2x1:RTX3060",
        a_queue("P", quota=2),
        a_queue("P.A", quota=1, parent="P"),
        a_queue("Q", weight=2),
    )
    world.submit(*jobs_of("P.A", 2, gpus=5), a_job("wide", queue="Q", gpus="2..7")).advance(700)
    for name in sorted(world.waiting()):
        change_is_true(world, name)


def test_work_inside_its_branchs_quota_is_not_paused_for_an_urgent_gang_over_it() -> None:
    """The singles are over their queue's quota of 0 but inside the branch's 4: a gang of 5 waits for them."""
    world = World("2x3", a_queue("P", quota=4), a_queue("P.A", parent="P")).lose("n1-1")
    world.submit(a_job("gang", queue="P.A", gpus=5), *jobs_of("P.A", 5)).advance(61.0)
    world.submit(a_job("timed", queue="P.A", max_runtime=100.0)).settle()
    for name in sorted(world.waiting()):
        change_is_true(world, name)


def test_what_does_not_compete_with_a_blocked_gang_is_no_backfill() -> None:
    """The gang waits for A100s; a job on the RTX3060 passes nobody and is not paused for a third."""
    world = World("2x1:RTX3060+1x2:A100", a_queue("A", quota=1), a_queue("B", quota=2)).lose("n1-0")
    world.submit(a_job("gang", queue="B", gpus="A100:2"), a_job("one", queue="B")).advance(700.0)
    world.run(a_job("small", queue="B", gpus="RTX3060:1"), a_job("pair", queue="A", gpus=2)).advance(700)
    if "small" in world.running():
        assert world["small"].backfill_until is None


def test_the_back_off_of_a_job_that_was_stopped_wakes_nobody() -> None:
    world = World("1x1").run(a_job("flaky", retries=1))
    world.fail("flaky").stop("flaky").settle()
    assert world.wake_at is None


@pytest.mark.parametrize("length", [2, 3, 4])
def test_jobs_that_made_room_for_each_other_in_a_ring_do_not_all_wait_for_ever(length: int) -> None:
    names = [f"j{number}" for number in range(length)]
    snapshot = Snapshot(a_pool("1x2"), [a_queue(name) for name in names])
    for number, name in enumerate(names):
        paused = replace(
            a_job(name, queue=name, gpus=2),
            phase=Phase.PAUSED,
            paused_by=PauseCause.SCHEDULER,
            attempt=1,
            started_at=float(number),
            made_room_for=JobId(names[(number + 1) % length]),
        )
        snapshot.put(paused)
    assert [action.job for action in decide(snapshot, 1000.0).actions] == ["j0"]


def test_what_is_more_important_than_a_blocked_gang_of_its_queue_is_no_backfill_behind_it() -> None:
    """The quota was cut: an urgent elastic job and one of the gang's own priority take turns no more."""
    world = World("2x3", a_queue("A", quota=6)).lose("n2-1").submit(a_job("one", queue="A"))
    world.submit(a_job("e1", queue="A", gpus="2..5"))
    world.submit(*[a_job(f"u{i}", queue="A", gpus="2..5", priority=75) for i in (1, 2)])
    world.set_queue(a_queue("A", quota=2)).submit(a_job("top", queue="A", priority=125))
    world.submit(a_job("gang", queue="A", gpus="2..3", one_node=True)).advance(700)
    world.change_device("n2-1", health=Health.HEALTHY)
    end_all(world)


def test_a_gang_beyond_its_queues_limit_holds_no_gpus_back() -> None:
    """Scaled to four in a branch that may hold three: what the others ask for does not wait for it."""
    world = World(
        "1x4",
        a_queue("P", quota=3, limit=3),
        a_queue("P.A", parent="P"),
        a_queue("P.B", parent="P"),
        a_queue("Q"),
    )
    world.submit(a_job("wide", queue="P.B", gpus="3..7"), a_job("q1", queue="Q", gpus="3..8"))
    world.submit(a_job("a1", queue="P.A", gpus=3)).scale("wide", 4, 7)
    end_all(world)
    assert world.waiting() == {"wide"}


def test_nominated_jobs_are_not_let_past_a_gang_that_is_due_now() -> None:
    """Never-preempted elastic gangs end; pairs, a range and a gang for one node come to rest."""
    world = World("1x2:A100+2x2:RTX3060+2x1:T4", a_queue("P", quota=6), a_queue("P.A", quota=5, parent="P"))
    world.submit(*[a_job(f"d{i}", queue="P.A", gpus="3..8", priority=125) for i in (1, 2)]).settle()
    world.submit(a_job("wide", queue="P.A", gpus="1..6"))
    world.submit(*[a_job(f"p{i}", queue="P.A", gpus=2) for i in (1, 2)])
    world.submit(a_job("gang", queue="P.A", gpus="2..5", one_node=True))
    end_all(world)
    assert not world.waiting()


def test_what_a_sibling_borrowed_is_taken_back_first_where_a_type_is_elsewhere() -> None:
    """P.A is inside its quota and needs a T4: P.B's borrowed slice goes, and then Q's T4 over its quota."""
    world = World(
        "1x2:RTX3060+2x1:T4",
        a_queue("Q", quota=1, weight=2.0),
        a_queue("R", quota=1),
        a_queue("P", quota=1),
        a_queue("P.A", quota=1, parent="P"),
        a_queue("P.B", parent="P"),
    )
    world.submit(a_job("half", queue="Q", gpus=0.5), *jobs_of("Q", 3)).advance(61).cordon("n3")
    world.submit(a_job("r", queue="R"), a_job("b", queue="P.B", gpus="6GB")).settle()
    world.submit(a_job("a", queue="P.A", gpus="T4:1")).advance(700)
    world.cordon("n3", cordoned=False).settle()
    assert "a" in world.running()


def test_who_is_inside_quota_gets_the_room_that_others_were_moved_for() -> None:
    """Two singles leave the A100s for a slice that counts too much elsewhere; a gang does not slip in."""
    world = World("2x1:RTX3060+1x2:T4+1x2:A100", a_queue("A", quota=4), a_queue("B", quota=2, limit=2))
    world.submit(*jobs_of("A", 2), a_job("slice", queue="B", gpus="8GB"))
    world.submit(*[a_job(f"d{i}", queue="B", gpus="8GB", type="dev") for i in range(3)])
    world.submit(a_job("gang", queue="A", gpus="3..4")).settle()
    assert "slice" in world.running()


def test_a_gang_for_one_node_counts_what_is_left_of_a_shared_gpu_there() -> None:
    """Two GPUs of the only open node, one of them shared by a less important slice: that one gives way."""
    world = World("2x3", a_queue("A", quota=2)).lose("n2-2").cordon("n1")
    world.run(a_job("slice", queue="A", gpus=0.7))
    world.run(a_job("urgent", queue="A", gpus="2..6", priority=60, one_node=True))
    assert "urgent" in world.running()


def test_a_never_preempted_slice_takes_back_the_large_gpu_on_which_it_is_inside_quota() -> None:
    """A third of a GPU is left of the quota: on a T4 the slice counts for half, on an A100 for a tenth."""
    world = World("2x1:RTX3060+1x2:T4+1x2:A100", a_queue("A", quota=4), a_queue("B", quota=2))
    world.run(*jobs_of("A", 3)).set_queue(a_queue("A")).settle()
    world.submit(a_job("d1", queue="B", gpus="8GB", type="dev"), a_job("d2", queue="B", type="dev")).settle()
    world.submit(a_job("d3", queue="B", gpus="8GB", type="dev")).lose("n3-1").advance(700)
    assert "d3" in world.running()


def test_no_slice_inside_quota_waits_for_a_large_gpu_of_an_elastic_job_of_its_queue() -> None:
    """What the elastic job gives first are small GPUs, on which a slice may count for too much."""
    world = World("1x3:RTX3060+2x1:A100+2x2:T4", a_queue("A", quota=2))
    world.submit(a_job("wide", queue="A", gpus="1..8"))
    world.submit(*[a_job(f"d{i}", queue="A", gpus="20GB", type="dev") for i in range(4)]).advance(61)
    world.submit(*[a_job(f"s{i}", queue="A", gpus="6GB", type="dev") for i in range(3)]).advance(700)
    assert len({"s0", "s1", "s2"} & world.running()) >= 2


def test_a_job_inside_quota_does_not_wait_behind_one_that_was_inside_and_is_no_more() -> None:
    """The elastic gang for which a job of B made room was itself paused, and is over its quota since."""
    world = World(
        "2x4:A100+1x1:RTX3060+2x1:T4",
        a_queue("P", quota=8),
        a_queue("P.A", quota=5, parent="P"),
        a_queue("P.B", quota=1, limit=3, parent="P"),
        a_queue("B", quota=3),
    )
    world.submit(a_job("wide", queue="B", gpus="2..3"), a_job("b1", queue="B"), a_job("pb", queue="P.B"))
    world.submit(a_job("pa", queue="P.A"), a_job("b2", queue="B")).step()
    world.submit(a_job("pw", queue="P.B", gpus="2..7"))
    world.submit(a_job("gang", queue="P.A", gpus="1..8", sizes=[2, 4, 8]), a_job("d", queue="B", type="dev"))
    world.settle().submit(a_job("pa2", queue="P.A"))
    world.submit(*[a_job(f"u{i}", queue="P.A", priority=125) for i in range(3)]).settle()
    world.stop("wide").settle()
    assert {"b1", "b2"} <= world.running()


def test_a_gang_is_as_far_from_its_quota_whatever_others_borrow_of_it_meanwhile() -> None:
    """The gang waits for quota until a job of known length ends: nothing starts only to be paused at once."""
    world = World("1x2:A100+1x1:T4+2x2:RTX3060", a_queue("A", quota=5), a_queue("B")).cordon("n3")
    world.submit(a_job("timed", queue="A", gpus="2..7", max_runtime=2000.0))
    world.submit(a_job("sized", queue="A", gpus="1..8", sizes=[2, 4, 8]), a_job("b", queue="B"))
    world.submit(a_job("gang", queue="A", gpus=4), *jobs_of("A", 3)).settle()
    world.stop("sized").settle()
    assert "b" not in world.pauses()


def test_asking_why_with_a_limit_tried_does_not_change_when_to_wake() -> None:
    """A raised limit is tried and taken back: fair shares are as they were."""
    world = World(
        "2x1:RTX3060+2x3:T4+1x4:A100",
        a_queue("P"),
        a_queue("P.A", parent="P"),
        a_queue("P.B", parent="P"),
        a_queue("Q", quota=9, reserved=6),
        a_queue("R", quota=2),
        a_queue("R.A", limit=1, parent="R"),
    )
    world.submit(*jobs_of("P.B", 4), *jobs_of("R.A", 2), *jobs_of("P.A", 2, gpus=0.7)).settle()
    for name in sorted(world.waiting()):
        why(world, name)


def test_what_is_inside_a_branchs_quota_is_not_taken_by_a_sibling_over_it() -> None:
    """One of P.B's singles is inside P's quota of 1: P.A's gang of 2, over it, would only swap with them."""
    world = World(
        "2x1",
        a_queue("P", quota=1),
        a_queue("P.A", quota=1, parent="P"),
        a_queue("P.B", parent="P"),
        a_queue("Q"),
    )
    world.submit(a_job("sized", queue="P.A", gpus="1..8", sizes=[2, 4, 8]))
    world.submit(a_job("timed", queue="P.B", max_runtime=100.0), a_job("b", queue="P.B"))
    world.submit(a_job("wide", queue="Q", gpus="2..6"))
    end_all(world)
