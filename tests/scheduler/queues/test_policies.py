"""Growth, trades and order in line follow the policy; quotas hold under all of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grus.model.errors import BadInput
from grus.scheduler.elasticity.throughput_outlook import UNKNOWN_LEFT, Ladder, Outlook, SizeStep
from grus.scheduler.queues.policies import FAIR, FIFO, GRUS, OPTIMUS, POLICIES, SRTF, TIRESIAS, policy_named
from tests.scheduler.builders import a_job, a_queue
from tests.scheduler.world import World

HOUR = 3600.0


def curve(
    power: float, most: int = 8, left: float = UNKNOWN_LEFT, stall: float = 0.0, boot: float = 0.0
) -> Outlook:
    """Speed grows with a power of the size: 1 is perfect, 0 is not at all."""
    sizes = tuple(range(1, most + 1))
    return Outlook(sizes, tuple(n**power for n in sizes), left=left, stall=stall, boot=boot)


# ------------------------------------------------------------------------------------------------ growth


def test_spare_gpus_go_to_the_job_that_they_speed_up_most() -> None:
    world = World("1x8").submit(a_job("steep", gpus="1..6"), a_job("flat", gpus="1..6"))
    world.expect("steep", curve(0.95)).expect("flat", curve(0.2)).settle()
    assert (world.size("steep"), world.size("flat")) == (6, 2)


def test_gpus_that_help_nobody_stay_idle() -> None:
    """It is as fast on two as on eight: the others would only cost a stall."""
    speeds = (1.0, 1.9, 1.9, 1.8, 1.7, 1.6, 1.5, 1.4)
    world = World("1x8").submit(a_job("small", gpus="1..8"))
    world.expect("small", Outlook(tuple(range(1, 9)), speeds)).settle()
    assert world.size("small") == 2


def test_a_dip_in_the_curve_is_stepped_over() -> None:
    world = World("1x8").submit(a_job("dip", gpus="1..4"))
    world.expect("dip", Outlook((1, 2, 3, 4), (1.0, 1.0, 0.9, 3.5))).settle()
    assert world.size("dip") == 4


def test_a_step_that_does_not_fit_is_made_as_far_as_there_is_room() -> None:
    world = World("1x4").run(a_job("one"))
    world.submit(a_job("dip", gpus="1..4")).expect(
        "dip", Outlook((1, 2, 3, 4), (1.0, 1.1, 1.2, 9.0))
    ).settle()
    assert world.size("dip") == 3


def test_sizes_out_of_reach_are_not_tried_before_smaller_ones_were_measured() -> None:
    world = World("1x8").submit(a_job("new", gpus="1..8")).expect("new", curve(1.0, most=2)).settle()
    assert world.size("new") == 2
    world.expect("new", curve(1.0, most=4)).settle()
    assert world.size("new") == 4


# ------------------------------------------------------------------------------------------------ trades


def two_running(first: Outlook, second: Outlook) -> World:
    """Two jobs with half of eight GPUs each, and then measured."""
    world = World("1x8").submit(a_job("a", gpus="1..8"), a_job("b", gpus="1..8")).settle()
    assert (world.size("a"), world.size("b")) == (4, 4)
    return world.expect("a", first).expect("b", second).settle()


def test_gpus_flow_from_where_they_buy_little_to_where_they_buy_much() -> None:
    world = two_running(curve(0.95), curve(0.1))
    assert (world.size("a"), world.size("b")) == (7, 1)
    assert "b" not in world.paused()


def test_a_trade_has_to_pay_for_the_stall() -> None:
    """The gain is small, the change is dear: nothing moves."""
    world = two_running(curve(0.9, stall=200.0, boot=60.0), curve(0.8, stall=200.0, boot=60.0))
    assert (world.size("a"), world.size("b")) == (4, 4)


def test_a_job_that_is_nearly_done_is_not_resized() -> None:
    soon = curve(0.95, left=10.0, stall=5.0, boot=30.0)
    world = two_running(soon, curve(0.1, left=HOUR, stall=5.0, boot=30.0))
    assert world.size("a") == 4


def test_short_work_is_worth_more_than_long_work() -> None:
    world = two_running(curve(0.8, left=600.0), curve(0.8, left=100 * HOUR))
    assert world.size("a") > world.size("b")


def test_jobs_that_nobody_measured_do_not_trade() -> None:
    world = World("1x8").submit(a_job("a", gpus="1..8"), a_job("b", gpus="1..8")).settle()
    world.expect("a", curve(1.0)).settle()
    assert (world.size("a"), world.size("b")) == (4, 4)


def test_a_trade_never_crosses_a_queue() -> None:
    queues = (a_queue("x", quota=4), a_queue("y", quota=4))
    world = World("1x8", *queues).submit(
        a_job("a", queue="x", gpus="1..8"), a_job("b", queue="y", gpus="1..8")
    )
    world.settle().expect("a", curve(1.0)).expect("b", curve(0.1)).settle()
    assert (world.held("x"), world.held("y")) == (4, 4)


speeds = st.lists(st.floats(0.05, 3.0), min_size=8, max_size=8)
outlooks = st.builds(
    lambda gains, left, stall: Outlook(
        tuple(range(1, 9)), tuple(sum(gains[: n + 1]) for n in range(8)), left=left, stall=stall, boot=stall
    ),
    speeds,
    st.floats(1.0, 1e6),
    st.floats(0.0, 60.0),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(outlooks, min_size=2, max_size=5), st.sampled_from(sorted(POLICIES)))
def test_trades_come_to_rest_whatever_was_measured(measured: list[Outlook], policy: str) -> None:
    """The world asserts that it never comes back to an allocation that it has left."""
    world = World("2x6", policy=POLICIES[policy])
    for number, outlook in enumerate(measured):
        world.submit(a_job(f"j{number}", gpus="1..8")).settle()
        world.expect(f"j{number}", outlook).settle()
    for number, outlook in enumerate(reversed(measured)):
        world.expect(f"j{number}", outlook).settle()


# ------------------------------------------------------------------------------------- the other policies


def test_fifo_lets_the_oldest_grow_first() -> None:
    world = World("1x8", policy=FIFO).submit(a_job("old", gpus="1..6"), a_job("young", gpus="1..6")).settle()
    assert (world.size("old"), world.size("young")) == (6, 2)


def test_fifo_takes_no_account_of_users() -> None:
    jobs = [a_job("1", user="ann"), a_job("2", user="ann"), a_job("3", user="ann"), a_job("4", user="bob")]
    for policy, last in ((FIFO, {"1", "2", "3"}), (FAIR, {"1", "2", "4"})):
        world = World("1x3", policy=policy).submit(*jobs).settle()
        assert world.running() == last, policy.name


def test_fair_lets_the_smallest_grow_whatever_was_measured() -> None:
    world = World("1x8", policy=FAIR).submit(a_job("a", gpus="1..8"), a_job("b", gpus="1..8"))
    world.expect("a", curve(1.0)).expect("b", curve(0.1)).settle()
    assert (world.size("a"), world.size("b")) == (4, 4)


def test_srtf_starts_the_shortest_first() -> None:
    world = World("1x1", policy=SRTF).run(a_job("now"))
    world.submit(a_job("long"), a_job("short"), a_job("unknown"))
    world.expect("long", Outlook((1,), (1.0,), left=HOUR)).expect("short", Outlook((1,), (1.0,), left=60.0))
    started: list[str] = []
    for _ in range(3):
        world.finish(next(iter(world.running()))).settle()
        started += world.running()
    assert started == ["short", "long", "unknown"]


def test_tiresias_puts_who_had_much_behind_the_others() -> None:
    world = World("1x1", policy=TIRESIAS).run(a_job("long"), a_job("fresh"))
    world.advance(100.0)
    assert world.running() == {"long"}
    world.expect("long", Outlook((1,), (1.0,), attained=17 * HOUR)).settle()
    assert world.running() == {"fresh"}


def test_optimus_gives_to_the_job_whose_end_comes_nearest() -> None:
    world = World("1x8", policy=OPTIMUS).submit(a_job("long", gpus="1..7"), a_job("short", gpus="1..7"))
    world.expect("long", curve(0.9, left=50 * HOUR)).expect("short", curve(0.9, left=60.0)).settle()
    assert (world.size("long"), world.size("short")) == (7, 1)


def test_policies_are_found_by_name() -> None:
    assert policy_named("grus") is GRUS
    with pytest.raises(BadInput, match="fifo, fair, srtf, tiresias, optimus, grus"):
        policy_named("best")


# ----------------------------------------------------------------------------------------------- ladders


@given(st.dictionaries(st.integers(1, 30), st.floats(0.0, 100.0), min_size=1), st.integers(1, 30))
def test_the_way_up_is_the_steepest_there_is(worth: dict[int, float], size: int) -> None:
    ladder = Ladder(worth)
    here = ladder.worth(size)
    steps = [SizeStep(n, (worth[n] - here) / (n - size)) for n in sorted(worth) if n > size]
    best = max((step.each for step in steps), default=0.0)
    up = ladder.up(size)
    assert (up is None) == (best <= 0)
    assert up is None or (up in steps and up.each == best)
