"""Answers for random models on random devices, all of them verified by the checker."""

from itertools import product

from hypothesis import given

from grus.partition.execution.placement_plan import Infeasible, Plan
from grus.partition.execution.simulate_step import ranks, simulate
from grus.partition.graph import Op, OpGraph
from grus.partition.operators.backward_graph import mirrored
from grus.partition.placers.lower_bounds import step_bound
from grus.partition.portfolio_planner import NODES, answers, place
from grus.partition.topology import Link, Topology, alike
from grus.partition.verification.placement_check import faults
from tests.partition.builders import a_chain, a_diamond, models, pools, two
from tests.properties.profiles import profile


@profile(150)
@given(models(), pools())
def test_every_answer_passes_the_checker_or_says_what_would_do(graph: OpGraph, topology: Topology) -> None:
    answer = place(graph, topology, effort=2_000)
    if isinstance(answer, Plan):
        assert faults(graph, topology, answer) == []
        return
    assert answer.blocking in {op.name for op in graph.ops}
    assert answer.least > min(device.memory for device in topology.devices)
    raised = topology.raised(answer.least)
    enough = place(graph, raised, effort=0)
    assert isinstance(enough, Plan)
    assert faults(graph, raised, enough) == []


@profile(60)
@given(models(), pools(least=60))
def test_the_portfolio_is_never_slower_than_one_of_its_placers(graph: OpGraph, topology: Topology) -> None:
    best = place(graph, topology, effort=2_000)
    for plan in answers(graph, topology).values():
        assert faults(graph, topology, plan) == []
        assert isinstance(best, Plan)
        assert best.seconds <= plan.seconds


@profile(60)
@given(models(most=5), pools())
def test_no_placement_beats_the_bound_and_a_proof_of_infeasibility_holds(
    graph: OpGraph, topology: Topology
) -> None:
    bound = step_bound(graph, topology)
    answer = place(graph, topology, effort=0)
    proven = isinstance(answer, Infeasible) and answer.proven
    for device_of in product(range(len(topology.devices)), repeat=len(graph.ops)):
        plan = simulate(graph, topology, device_of, ranks(graph.topological))
        wrong = faults(graph, topology, plan)
        if not wrong:
            assert plan.seconds >= bound * (1 - 1e-9)
            assert not proven


def test_parallel_branches_are_spread_when_links_are_fast() -> None:
    plan = place(a_diamond(), two(link=Link(0.01)))
    assert isinstance(plan, Plan)
    assert plan.device_of[1] != plan.device_of[2]
    assert plan.seconds < 16.0


def test_everything_stays_together_when_links_are_slow() -> None:
    plan = place(a_diamond(output=50), two(memory=1000))
    assert isinstance(plan, Plan)
    assert len(set(plan.device_of)) == 1


def test_a_chain_that_fits_no_device_is_cut_at_its_smallest_tensor() -> None:
    ops = tuple(Op(f"op-{n}", 1.0, 10, 0, size) for n, size in enumerate((9, 9, 1, 9, 0)))
    graph = OpGraph(ops, tuple((n, n + 1) for n in range(4)))
    plan = place(graph, alike([70, 70], Link(1.0)))
    assert isinstance(plan, Plan)
    assert plan.transfers == ()
    plan = place(graph, alike([48, 48], Link(1.0)))
    assert isinstance(plan, Plan)
    assert [one.producer for one in plan.transfers] == [2]


def test_the_smaller_part_goes_to_the_smaller_device() -> None:
    plan = place(a_chain(1.0, 1.0, 1.0, permanent=10, output=0), alike([11, 21], Link(1.0)))
    assert isinstance(plan, Plan)
    assert sorted(plan.peaks) == [10, 20]
    assert plan.peaks[0] == 10


def test_a_group_larger_than_every_device_is_named_with_what_it_needs() -> None:
    ops = (Op("light", 1.0, 1), Op("embedding", 1.0, 40, group="tied"), Op("head", 1.0, 30, group="tied"))
    answer = place(OpGraph(ops, ()), two(memory=50))
    assert answer == Infeasible("embedding", 70, proven=True)
    assert "no room for operator embedding" in str(answer)


def test_a_large_model_is_placed_coarse_first_and_verified_operator_by_operator() -> None:
    count = NODES // 2 + 50
    forward = a_chain(*[1.0 + n % 3 for n in range(count)], permanent=10, output=4)
    graph = mirrored(forward, [2.0] * count)
    topology = alike([round(0.6 * 10 * count)] * 2, Link(0.01))
    plan = place(graph, topology, effort=4 * len(graph.ops))
    assert len(graph.ops) > NODES
    assert isinstance(plan, Plan)
    assert faults(graph, topology, plan) == []
    assert plan.seconds <= 1.01 * plan.bound
    assert len(plan.transfers) == 2
    assert plan.seconds <= min(one.seconds for one in answers(graph, topology).values())


def test_an_answer_is_the_same_every_time() -> None:
    graph = a_diamond(output=2)
    assert place(graph, two()) == place(graph, two())
