import numpy as np
from hypothesis import given

from grus.partition.graph import Op, OpGraph
from grus.partition.operators.colocation_groups import breadth_first, units_of
from grus.partition.pipelining.stage_units import loads
from grus.partition.placers.contiguous_segments import split, stretches
from grus.partition.placers.etf import etf
from grus.partition.placers.memory_fit import footprints
from grus.partition.placers.outcome import Assignment, NoRoom
from grus.partition.placers.sct import favourites
from grus.partition.placers.topo import pack, topo
from grus.partition.topology import Link, alike
from tests.partition.builders import a_chain, models, two
from tests.properties.profiles import profile


@profile(80)
@given(models())
def test_careful_list_placements_fit_in_any_order(graph: OpGraph) -> None:
    topology = alike([40, 25, 60], Link(0.1))
    for placer in (topo, etf):
        found = placer(graph, topology, True)
        if isinstance(found, Assignment):
            used = footprints(graph, topology, found.device_of)
            assert all(one <= limit.memory for one, limit in zip(used, topology.devices, strict=True))


@profile(80)
@given(models())
def test_the_tables_of_stretches_hold_what_counting_gives(graph: OpGraph) -> None:
    units, topology = units_of(graph), alike([1, 1], Link(0.5, 0.25))
    order = breadth_first(graph, units)
    table = stretches(graph, topology, units, order)
    for begin in range(len(order)):
        for end in range(begin + 1, len(order) + 1):
            inside = {op for unit in order[begin:end] for op in units.members[unit]}
            device_of = [0 if op in inside else 1 for op in range(len(graph.ops))]
            busy = table.seconds[begin, end] + table.receives[begin, end] + table.sends[begin, end]
            assert np.isclose(busy, loads(graph, topology, device_of)[0])
            assert table.memory[begin, end] == footprints(graph, topology, device_of)[0]


def test_a_contiguous_split_is_the_most_even_one() -> None:
    graph = a_chain(5.0, 1.0, 1.0, 1.0, 2.0, output=0)
    units = units_of(graph)
    order = breadth_first(graph, units)
    table = stretches(graph, two(), units, order)
    found = split(graph, two(), units, order, [table] * 2, (0, 1), evenest=True)
    assert isinstance(found, Assignment)
    assert found.device_of == (0, 1, 1, 1, 1)


def test_a_contiguous_split_without_room_names_the_unit_it_could_not_reach() -> None:
    graph = a_chain(1.0, 1.0, 1.0, permanent=10, output=0)
    units = units_of(graph)
    order = breadth_first(graph, units)
    table = stretches(graph, two(10), units, order)
    assert split(graph, two(10), units, order, [table] * 2, (0, 1), evenest=False) == NoRoom(2)


def test_the_linear_program_keeps_the_child_that_is_dearest_to_send() -> None:
    ops = (Op("cheap", 1.0, output=1), Op("dear", 1.0, output=9), Op("reader", 1.0))
    found = favourites(OpGraph(ops, ((0, 2), (1, 2))), two(link=Link(0.1)))
    assert found == {1: 2}


def test_topo_fills_to_an_even_share_and_never_above_what_a_device_has() -> None:
    found = topo(a_chain(*[1.0] * 6, permanent=10, output=0), alike([20, 100, 100], Link(0.0)), True)
    assert isinstance(found, Assignment)
    assert found.device_of == (0, 0, 1, 1, 1, 2)


def test_packing_finds_room_where_the_order_of_the_model_does_not() -> None:
    ops = tuple(Op(str(n), 1.0, size) for n, size in enumerate((3, 3, 7, 7)))
    graph, topology = OpGraph(ops, ()), alike([10, 10], Link(0.0))
    assert isinstance(topo(graph, topology, True), NoRoom)
    assert isinstance(pack(graph, topology, True), Assignment)


def test_etf_stuck_without_room_names_an_operator() -> None:
    assert etf(a_chain(1.0, 1.0, permanent=9, output=0), two(8), True) == NoRoom(0)
