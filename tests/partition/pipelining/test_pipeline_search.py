"""Steps of many micro-batches: every answer verified by the checker, which has no part of what made it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grus.partition.execution.placement_plan import Infeasible, Message, Pipeline, Rhythm, Schedule, Turn
from grus.partition.graph import Op, OpGraph
from grus.partition.operators.backward_graph import mirrored
from grus.partition.pipelining.micro_batch_schedule import order
from grus.partition.pipelining.pipeline_search import NODES, place_stages, staged
from grus.partition.placers.lower_bounds import rounds_bound
from grus.partition.topology import Link, Topology, alike
from grus.partition.verification.placement_check import pipeline_faults
from tests.partition.builders import a_chain, models, pools, two
from tests.properties.profiles import profile

GPIPE, ONE_F_ONE_B = Rhythm.GPIPE, Rhythm.ONE_F_ONE_B
FREE = Link(0.0)
schedules = st.builds(Schedule, st.sampled_from(Rhythm), st.integers(1, 5))


@st.composite
def trainings(draw: st.DrawFn) -> OpGraph:
    graph = draw(models())
    ops = (replace(op, kept=draw(st.integers(0, op.permanent))) for op in graph.ops)
    seconds = st.sampled_from((0.0, 2.0, None))
    return mirrored(OpGraph(tuple(ops), graph.edges), [draw(seconds) for _ in graph.ops])


def a_training(*seconds: float, kept: int = 10, weights: int = 1, output: int = 0) -> OpGraph:
    """A chain whose backward pass takes twice as long."""
    graph = a_chain(*seconds, output=output)
    ops = tuple(replace(op, permanent=weights + kept, kept=kept) for op in graph.ops)
    return mirrored(OpGraph(ops, graph.edges), [2 * one for one in seconds])


@profile(80)
@given(models() | trainings(), pools(least=50, most=400), schedules)
def test_every_answer_passes_the_checker_or_says_what_would_do(
    graph: OpGraph, topology: Topology, schedule: Schedule
) -> None:
    answer = place_stages(graph, topology, schedule, budget=40)
    if isinstance(answer, Pipeline):
        assert pipeline_faults(graph, topology, answer) == []
        return
    raised = topology.raised(answer.least)
    enough = place_stages(graph, raised, schedule, budget=0)
    assert isinstance(enough, Pipeline)
    assert pipeline_faults(graph, raised, enough) == []


@pytest.mark.parametrize("rhythm", [GPIPE, ONE_F_ONE_B])
def test_equal_stages_take_a_turn_more_for_each_stage_that_must_fill(rhythm: Rhythm) -> None:
    graph = a_training(1.0, 1.0)
    plan = place_stages(graph, two(1000, FREE), Schedule(rhythm, 4))
    assert isinstance(plan, Pipeline)
    assert plan.device_of[0] != plan.device_of[1]
    assert plan.seconds == pytest.approx((4 + 1) * 3.0)


def test_gpipe_keeps_every_micro_batch_and_1f1b_as_many_as_stages_follow() -> None:
    graph = a_training(1.0, 1.0)
    places = (0, 1, 1, 0)
    peaks = {
        rhythm: staged(graph, two(1000, FREE), places, (0, 1), Schedule(rhythm, 4), "").peaks
        for rhythm in Rhythm
    }
    assert peaks[GPIPE] == (1 + 4 * 10, 1 + 4 * 10)
    assert peaks[ONE_F_ONE_B] == (1 + 2 * 10, 1 + 1 * 10)


def test_every_message_that_will_come_has_its_place_from_the_start() -> None:
    graph = a_training(1.0, 1.0, kept=0, output=5)
    plan = staged(graph, two(1000, FREE), (0, 1, 1, 0), (0, 1), Schedule(ONE_F_ONE_B, 4), "")
    # On the first device, besides: two outputs in flight; on the second: result and gradient.
    assert plan.peaks == (1 + 4 * 5 + 2 * 5, 1 + 4 * 5 + 5 + 5)


def test_memory_in_flight_decides_whether_a_rhythm_fits() -> None:
    graph = a_training(1.0, 1.0)
    assert isinstance(place_stages(graph, two(25, FREE), Schedule(ONE_F_ONE_B, 8)), Pipeline)
    answer = place_stages(graph, two(25, FREE), Schedule(GPIPE, 8))
    assert isinstance(answer, Infeasible)
    assert answer.least <= 1 + 8 * 10


def test_the_stage_with_the_most_in_flight_is_given_the_larger_device() -> None:
    graph = a_training(1.0, 1.0)
    plan = place_stages(graph, alike([12, 30], FREE), Schedule(ONE_F_ONE_B, 4))
    assert isinstance(plan, Pipeline)
    assert plan.stages == (1, 0)


def test_what_a_later_stage_needs_passes_through_those_between() -> None:
    ops = tuple(Op(f"op-{n}", 1.0, 1, 0, 4) for n in range(3))
    graph = OpGraph(ops, ((0, 1), (1, 2), (0, 2)))
    plan = staged(graph, alike([100] * 3, Link(1.0)), (0, 1, 2), (0, 1, 2), Schedule(GPIPE, 1), "")
    sizes = {one.stage: one.end - one.start for one in plan.messages}
    assert sizes == {0: 4.0, 1: 8.0}
    assert pipeline_faults(graph, alike([100] * 3, Link(1.0)), plan) == []


def test_more_stages_than_micro_batches_are_never_given_to_1f1b() -> None:
    plan = place_stages(a_training(1.0, 1.0, 1.0), alike([1000] * 3, FREE), Schedule(ONE_F_ONE_B, 2))
    assert isinstance(plan, Pipeline)
    assert len(plan.stages) <= 2


def test_a_large_model_is_cut_coarse_first_and_verified_operator_by_operator() -> None:
    graph = a_training(*[1.0 + n % 3 for n in range(NODES)], kept=10, output=4)
    topology = alike([40 * NODES] * 2, Link(0.01))
    plan = place_stages(graph, topology, Schedule(ONE_F_ONE_B, 4))
    assert isinstance(plan, Pipeline)
    assert pipeline_faults(graph, topology, plan) == []
    assert plan.seconds <= 1.12 * plan.bound


def test_one_after_the_other_1f1b_goes_back_as_soon_as_it_can() -> None:
    turns = order(Schedule(ONE_F_ONE_B, 3), 0, 2)
    assert turns == [(0, False), (1, False), (0, True), (2, False), (1, True), (2, True)]


@pytest.mark.parametrize("batches", [1, 3, 16])
def test_no_division_beats_the_bound(batches: int) -> None:
    schedule = Schedule(ONE_F_ONE_B, batches)
    graph = a_training(2.0, 1.0, 3.0, 1.0)
    topology = alike([10_000] * 2, FREE)
    bound = rounds_bound(graph, topology, schedule)
    for cut in range(1, 4):
        places = [0 if n < cut or n > 7 - cut else 1 for n in range(8)]
        assert staged(graph, topology, places, (0, 1), schedule, "").seconds >= bound * (1 - 1e-9)


@pytest.fixture
def right() -> tuple[OpGraph, Topology, Pipeline]:
    graph = a_training(1.0, 1.0, output=1)
    topology = alike([1000, 1000], Link(0.1))
    plan = staged(graph, topology, (0, 1, 1, 0), (0, 1), Schedule(ONE_F_ONE_B, 3), "")
    assert pipeline_faults(graph, topology, plan) == []
    return graph, topology, plan


def _earlier(turn: Turn, by: float) -> Turn:
    return replace(turn, start=turn.start - by, end=turn.end - by)


def _sooner(message: Message, by: float) -> Message:
    return replace(message, start=message.start - by, end=message.end - by)


@pytest.mark.parametrize(
    ("fault", "change"),
    [
        ("every stage", lambda plan: replace(plan, turns=plan.turns[1:])),
        ("not the devices", lambda plan: replace(plan, stages=(0,))),
        ("messages are not", lambda plan: replace(plan, messages=plan.messages[1:])),
        ("wrong side", lambda plan: replace(plan, stages=(1, 0))),
        ("does not end", lambda plan: replace(plan, seconds=plan.seconds + 1)),
        ("is above the step", lambda plan: replace(plan, bound=plan.seconds + 1)),
        ("bytes, not", lambda plan: replace(plan, peaks=(1, 1))),
        (
            "does not take",
            lambda plan: replace(plan, turns=(replace(plan.turns[0], end=0.5), *plan.turns[1:])),
        ),
        (
            "before it is made",
            lambda plan: replace(plan, messages=(_sooner(plan.messages[0], 0.5), *plan.messages[1:])),
        ),
        (
            "too early",
            lambda plan: replace(
                plan, turns=tuple(_earlier(t, 0.9) if t.batch == 1 else t for t in plan.turns)
            ),
        ),
        (
            "more than 2",
            lambda plan: replace(
                plan, schedule=Schedule(ONE_F_ONE_B, 3), turns=tuple(_late(one) for one in plan.turns)
            ),
        ),
    ],
)
def test_the_checker_sees(right: tuple[OpGraph, Topology, Pipeline], fault: str, change: object) -> None:
    graph, topology, plan = right
    assert callable(change)
    assert any(fault in one for one in pipeline_faults(graph, topology, change(plan)))


def _late(turn: Turn) -> Turn:
    """Backward turns only when all forward ones are over."""
    return replace(turn, start=turn.start + 50, end=turn.end + 50) if turn.backward else turn
