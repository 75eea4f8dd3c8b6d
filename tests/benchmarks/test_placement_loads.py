from dataclasses import replace

from hypothesis import given

from benchmarks.placement_loads import LoadPipeline, describe, load_faults, place_pipeline
from grus.partition.execution.placement_plan import Infeasible
from grus.partition.graph import Op, OpGraph
from grus.partition.topology import Topology
from tests.partition.builders import a_chain, models, pools, two
from tests.properties.profiles import profile


@profile(120)
@given(models(), pools())
def test_every_pipeline_passes_the_checker_or_says_what_would_do(graph: OpGraph, topology: Topology) -> None:
    answer = place_pipeline(graph, topology)
    if isinstance(answer, LoadPipeline):
        assert load_faults(graph, topology, answer) == []
        return
    raised = topology.raised(answer.least)
    enough = place_pipeline(graph, raised)
    assert isinstance(enough, LoadPipeline)
    assert load_faults(graph, raised, enough) == []


def test_a_chain_is_cut_where_the_loads_are_even() -> None:
    plan = place_pipeline(a_chain(1.0, 2.0, 2.0, 1.0, output=0), two())
    assert isinstance(plan, LoadPipeline)
    assert plan.loads == (3.0, 3.0)
    assert plan.slowest == plan.bound


def test_a_backward_pass_goes_back_through_the_stages_of_its_operators() -> None:
    names = ("a", "b", "b", "a")
    ops = tuple(Op(f"{name}-{n}", 1.0, 1, group=name, backward=n > 1) for n, name in enumerate(names))
    graph = OpGraph(ops, ((0, 1), (1, 2), (2, 3)))
    plan = place_pipeline(graph, two())
    assert isinstance(plan, LoadPipeline)
    assert load_faults(graph, two(), plan) == []
    assert plan.loads == (2.0, 2.0)


def test_tied_weights_at_both_ends_keep_a_pipeline_in_one_stage() -> None:
    ops = (Op("in", 1.0, 5, group="tied"), Op("middle", 1.0, 5), Op("out", 1.0, 5, group="tied"))
    graph = OpGraph(ops, ((0, 1), (1, 2)))
    plan = place_pipeline(graph, two())
    assert isinstance(plan, LoadPipeline)
    assert len(set(plan.device_of)) == 1
    assert isinstance(place_pipeline(graph, two(memory=12)), Infeasible)


def test_a_pipeline_is_checked_for_load_memory_bound_and_flow() -> None:
    graph = a_chain(1.0, 1.0, 1.0)
    good = describe(graph, two(), (0, 0, 1), "by hand")
    assert load_faults(graph, two(), good) == []
    assert "is busy for" in load_faults(graph, two(), replace(good, loads=(1.0, 1.0)))[0]
    assert "bytes" in load_faults(graph, two(), replace(good, peaks=(0, 0)))[0]
    assert "the bound" in load_faults(graph, two(), replace(good, bound=99.0))[0]
    assert "has 2" in load_faults(graph, two(2), good)[0]
    circle = describe(graph, two(), (0, 1, 0), "by hand")
    assert load_faults(graph, two(), circle) == ["data flows in a circle between the stages [0, 1]"]
