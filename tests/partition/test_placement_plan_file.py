"""Plans on disk: what is read is what was written, and what does not hold is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grus.model.errors import BadInput
from grus.partition.execution.placement_plan import Pipeline, Plan, Rhythm, Schedule
from grus.partition.graph import OpGraph
from grus.partition.pipelining.pipeline_search import place_stages
from grus.partition.placement_plan_file import Split, read, written
from grus.partition.portfolio_planner import place
from grus.partition.topology import Link, Topology, alike
from tests.partition.builders import a_chain, models, pools
from tests.properties.profiles import profile

LARGE = alike([1000, 1000], Link(0.01))


def a_split(graph: OpGraph, topology: Topology = LARGE, stages: bool = False) -> Split:
    schedule = Schedule(Rhythm.ONE_F_ONE_B, 4)
    plan = place_stages(graph, topology, schedule, 10) if stages else place(graph, topology, effort=100)
    assert isinstance(plan, Plan | Pipeline)
    places = {op.name: place for op, place in zip(graph.ops, plan.device_of, strict=True)}
    return Split(target="train.py:make", batch=64, graph=graph, topology=topology, plan=plan, places=places)


def changed(**changes: Any) -> str:
    document = json.loads(written(a_split(a_chain(1.0, 2.0, 3.0))))
    for path, value in changes.items():
        part, _, name = path.partition("__")
        if name:
            document[part][name] = value
        elif value is None:
            del document[part]
        else:
            document[part] = value
    return json.dumps(document)


@profile(50)
@given(models(), pools(least=2000, most=2500))
def test_what_is_read_is_what_was_written(graph: OpGraph, topology: Topology) -> None:
    for stages in (False, True):
        split = a_split(graph, topology, stages)
        assert read(written(split)) == split


def test_a_plan_whose_times_were_changed_by_hand_is_refused() -> None:
    with pytest.raises(BadInput, match=r"the step ends at 6.* not at 5.*Make it again"):
        read(changed(step__seconds=5.0))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a plan"),
        ("[1, 2]", "not a plan"),
        (changed(grus_plan=7), "another version"),
        (changed(step=None), "must have a step or a pipeline"),
        (changed(places={"op-0": 2}), "op-0 is on device 2"),
        (changed(batch=0), "a batch of 0"),
        (changed(batch="many"), "not a plan"),
        (changed(surprise=1), "not a plan"),
        (changed(edges=[[0, 1], [1, 2], [2, 0]]), "cycle"),
        (changed(step__device_of=[0, 0]), "device_of has 2 entries for 3"),
    ],
)
def test_a_broken_file_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read(text)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [leaf for key, one in value.items() for leaf in leaves(one, (*path, key))]
    if isinstance(value, list):
        return [path, *(leaf for key, one in enumerate(value) for leaf in leaves(one, (*path, key)))]
    return [path]


@profile(200)
@given(st.data(), st.booleans())
def test_whatever_is_changed_in_a_file_it_is_refused_or_holds(data: st.DataObject, stages: bool) -> None:
    document = json.loads(written(a_split(a_chain(1.0, 2.0, 3.0, output=20), stages=stages)))
    path = data.draw(st.sampled_from(leaves(document)))
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = data.draw(st.sampled_from([-1, 0, 2, 99, 1e300, "x", None, [], [[]], [0], True]))
    try:
        found = read(json.dumps(document))
    except BadInput:
        return
    assert read(written(found)) == found
