"""What is shown of a plan is what the plan says."""

from hypothesis import given
from hypothesis import strategies as st

from grus.partition.execution.placement_plan import Pipeline, Plan, Rhythm, Schedule
from grus.partition.execution.simulate_step import ranks, simulate
from grus.partition.execution.timeline import COMPUTING, ActivityKind, strips
from grus.partition.graph import Op, OpGraph
from grus.partition.pipelining.pipeline_search import place_stages
from grus.partition.portfolio_planner import place
from grus.partition.topology import Topology
from tests.partition.builders import a_chain, models, pools, two
from tests.properties.profiles import profile


@profile(150)
@given(models(), pools(least=400, most=500))
def test_the_curve_of_memory_rises_to_the_peak_of_the_plan_and_never_below_zero(
    graph: OpGraph, topology: Topology
) -> None:
    plan = place(graph, topology, effort=500)
    assert isinstance(plan, Plan)
    shown = strips(graph, topology, plan)
    assert tuple(one.peak for one in shown) == plan.peaks
    for one in shown:
        assert all(size >= 0 for _, size in one.usage)
        assert [at for at, _ in one.usage] == sorted(at for at, _ in one.usage)


@profile(60)
@given(models(), pools(least=2000, most=2500), st.sampled_from(list(Rhythm)), st.integers(4, 6))
def test_the_curve_of_a_pipeline_rises_to_its_peaks(
    graph: OpGraph, topology: Topology, rhythm: Rhythm, batches: int
) -> None:
    plan = place_stages(graph, topology, Schedule(rhythm, batches), budget=10)
    assert isinstance(plan, Pipeline)
    shown = strips(graph, topology, plan)
    assert tuple(one.peak for one in shown) == plan.peaks
    assert max(stretch.end for one in shown for stretch in one.stretches) == plan.seconds
    for device, one in enumerate(shown):
        turns = [stretch for stretch in one.stretches if stretch.kind in COMPUTING]
        assert len(turns) == (2 * batches if device in plan.stages else 0)


def test_every_operator_is_shown_once_where_it_runs_and_every_transfer_at_both_ends() -> None:
    graph = a_chain(1.0, 2.0, 1.0, output=3)
    plan = simulate(graph, two(), (0, 0, 1), ranks(graph.topological))
    first, second = strips(graph, two(), plan)
    assert [(one.kind, one.name, one.begin, one.end) for one in first.stretches] == [
        (ActivityKind.FORWARD, "op-0", 0.0, 1.0),
        (ActivityKind.FORWARD, "op-1", 1.0, 3.0),
        (ActivityKind.SENDS, "op-1", 3.0, 6.0),
    ]
    assert [(one.kind, one.name, one.size, one.peer) for one in second.stretches] == [
        (ActivityKind.RECEIVES, "op-1", 3, "gpu-0"),
        (ActivityKind.FORWARD, "op-2", 0, ""),
    ]
    assert (first.busy, second.busy) == (3.0, 1.0)


def test_memory_of_a_backward_pass_is_given_back_as_it_goes() -> None:
    ops = (
        Op("layer", 1.0, permanent=2, output=5),
        Op("layer.backward", 1.0, output=0, backward=True),
    )
    graph = OpGraph(ops, ((0, 1),))
    plan = simulate(graph, two(), (0, 0), ranks(graph.topological))
    shown = strips(graph, two(), plan)[0]
    assert [one.kind for one in shown.stretches] == [ActivityKind.FORWARD, ActivityKind.BACKWARD]
    assert shown.usage == ((0.0, 2), (0.0, 7), (2.0, 2))
