"""Coarse graphs of random models: still without a cycle, nothing lost, and memory never told too low."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from grus.partition.execution.placement_plan import Plan
from grus.partition.execution.simulate_step import ranks, simulate
from grus.partition.graph import Op, OpGraph
from grus.partition.operators.backward_graph import mirrored
from grus.partition.operators.coarsening import Coarse, Limit, coarsen
from grus.partition.portfolio_planner import place
from grus.partition.topology import Link, Topology, alike
from grus.partition.verification.placement_check import faults
from tests.partition.builders import a_chain, a_diamond, models, pools
from tests.properties.profiles import profile

FREE = Limit(1, 10**9, 1e9)
ONE = alike([10**9], Link(0.0))


@st.composite
def trainings(draw: st.DrawFn) -> OpGraph:
    graph = draw(models())
    seconds = st.sampled_from((0.0, 2.0, None))
    return mirrored(graph, [draw(seconds) for _ in graph.ops])


limits = st.builds(Limit, st.integers(1, 8), st.integers(0, 60), st.sampled_from((0.0, 3.0, 100.0)))


@profile(40)
@given(models() | trainings(), limits)
def test_sums_groups_and_order_survive(graph: OpGraph, limit: Limit) -> None:
    coarse = coarsen(graph, limit)
    for quantity in ("seconds", "kept"):
        sums = (sum(getattr(op, quantity) for op in one.ops) for one in (graph, coarse.graph))
        assert abs(next(sums) - next(sums)) < 1e-9
    homes = {op.group: coarse.graph.ops[coarse.of[n]].group for n, op in enumerate(graph.ops) if op.group}
    for number, op in enumerate(graph.ops):
        assert coarse.graph.ops[coarse.of[number]].backward == op.backward
        if op.group:
            assert coarse.graph.ops[coarse.of[number]].group == homes[op.group]
    place_of = ranks(coarse.order(coarse.graph.topological))
    assert all(place_of[one] < place_of[two] for one, two in graph.edges)


@profile(40)
@given(models() | trainings(), limits)
def test_what_is_tied_together_by_joining_stays_within_the_limits(graph: OpGraph, limit: Limit) -> None:
    coarse = coarsen(graph, limit)
    for unit, members in _units(coarse).items():
        ops = [graph.ops[number] for number in members]
        groups = {op.group or f"alone-{number}" for number, op in zip(members, ops, strict=True)}
        if len(groups) > 1:
            assert sum(op.permanent for op in ops) <= limit.memory, unit
            assert sum(op.seconds for op in ops) <= limit.seconds, unit


def _units(coarse: Coarse) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, one in enumerate(coarse.of):
        found.setdefault(coarse.graph.ops[one].group, []).append(number)
    return found


@profile(40)
@given(models() | trainings(), limits)
def test_one_after_the_other_the_original_operators_take_no_more_memory(graph: OpGraph, limit: Limit) -> None:
    # What takes no time is there beside all else of its instant, in whichever order it comes.
    graph = OpGraph(tuple(replace(op, seconds=op.seconds or 1.0) for op in graph.ops), graph.edges)
    coarse = coarsen(graph, limit)
    order = coarse.graph.topological
    told = simulate(coarse.graph, ONE, [0] * len(coarse.graph.ops), ranks(order))
    fine = simulate(graph, ONE, [0] * len(graph.ops), ranks(coarse.order(order)))
    assert fine.peaks[0] <= told.peaks[0]


@profile(40)
@given(models() | trainings(), pools(least=100, most=400))
def test_a_coarse_answer_holds_for_the_original_operators(graph: OpGraph, topology: Topology) -> None:
    coarse = coarsen(graph, Limit(4, 60, 100.0))
    answer = place(coarse.graph, topology, effort=0)
    if isinstance(answer, Plan):
        order = sorted(range(len(coarse.graph.ops)), key=lambda op: answer.start[op])
        plan = simulate(graph, topology, coarse.expanded(answer.device_of), ranks(coarse.order(order)))
        wrong = faults(graph, topology, plan)
        assert [one for one in wrong if "bytes and has" not in one] == []


def test_a_chain_becomes_one_operator_when_nothing_forbids_it() -> None:
    coarse = coarsen(a_chain(1.0, 2.0, 3.0), FREE)
    assert [(op.seconds, op.permanent, op.output) for op in coarse.graph.ops] == [(6.0, 3, 1)]
    assert coarse.of == (0, 0, 0)


def test_forward_and_backward_pass_are_never_joined() -> None:
    coarse = coarsen(mirrored(a_chain(1.0, 2.0, 3.0), [1.0, 1.0, 1.0]), FREE)
    assert [op.backward for op in coarse.graph.ops] == [False, True]
    assert len({op.group for op in coarse.graph.ops}) == 1


def test_branches_stay_apart_as_long_as_chains_can_be_joined() -> None:
    ops = [Op(f"op-{n}", 1.0, 1, 0, 1) for n in range(8)]
    ops[1] = Op("op-1", 1.0, 1, 0, 100)
    edges = ((0, 1), (1, 2), (2, 3), (3, 7), (0, 4), (4, 5), (5, 6), (6, 7))
    coarse = coarsen(OpGraph(tuple(ops), edges), Limit(4, 10**9, 1e9))
    assert sorted(coarse.members) == [(0,), (1, 2, 3), (4, 5, 6), (7,)]


def test_joining_ends_at_the_number_of_nodes_that_is_asked_for() -> None:
    assert len(coarsen(a_chain(*[1.0] * 20), Limit(7, 10**9, 1e9)).graph.ops) == 7
    assert len(coarsen(a_diamond(), FREE).graph.ops) == 1
