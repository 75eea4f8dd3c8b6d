from hypothesis import given

from benchmarks.placement_loads import place_pipeline
from grus.partition.execution.placement_plan import Infeasible, Pipeline
from grus.partition.graph import Op, OpGraph
from grus.partition.topology import Topology
from grus.partition.verification.placement_check import pipeline_faults
from tests.partition.builders import a_chain, models, pools, two
from tests.properties.profiles import profile


@profile(120)
@given(models(), pools())
def test_every_pipeline_passes_the_checker_or_says_what_would_do(graph: OpGraph, topology: Topology) -> None:
    answer = place_pipeline(graph, topology)
    if isinstance(answer, Pipeline):
        assert pipeline_faults(graph, topology, answer) == []
        return
    raised = topology.raised(answer.least)
    enough = place_pipeline(graph, raised)
    assert isinstance(enough, Pipeline)
    assert pipeline_faults(graph, raised, enough) == []


def test_a_chain_is_cut_where_the_loads_are_even() -> None:
    plan = place_pipeline(a_chain(1.0, 2.0, 2.0, 1.0, output=0), two())
    assert isinstance(plan, Pipeline)
    assert plan.loads == (3.0, 3.0)
    assert plan.slowest == plan.bound


def test_a_backward_pass_goes_back_through_the_stages_of_its_operators() -> None:
    names = ("a", "b", "b", "a")
    ops = tuple(Op(f"{name}-{n}", 1.0, 1, group=name, backward=n > 1) for n, name in enumerate(names))
    graph = OpGraph(ops, ((0, 1), (1, 2), (2, 3)))
    plan = place_pipeline(graph, two())
    assert isinstance(plan, Pipeline)
    assert pipeline_faults(graph, two(), plan) == []
    assert plan.loads == (2.0, 2.0)


def test_tied_weights_at_both_ends_keep_a_pipeline_in_one_stage() -> None:
    ops = (Op("in", 1.0, 5, group="tied"), Op("middle", 1.0, 5), Op("out", 1.0, 5, group="tied"))
    graph = OpGraph(ops, ((0, 1), (1, 2)))
    plan = place_pipeline(graph, two())
    assert isinstance(plan, Pipeline)
    assert len(set(plan.device_of)) == 1
    assert isinstance(place_pipeline(graph, two(memory=12)), Infeasible)
