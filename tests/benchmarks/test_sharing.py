"""The sharing benchmark: its books refuse what does not fit, and its figures tell good rules from bad."""

from collections.abc import Sequence

import pytest

from benchmarks.sharing import compare, fill
from benchmarks.sharing_mix import CORE, GB, Machine, Sort, draw, make_nodes, unusable
from benchmarks.sharing_rules import Placed, best_fit, fgd, options
from grus.model.resources import GPU

HALF = Sort(0, GPU // 2, CORE, GB)


def worst_fit(machines: Sequence[Machine], sort: Sort) -> Placed | None:
    """The emptiest node: what nobody should do."""
    found = [
        (-sum(machine.free), number, devices)
        for number, machine in enumerate(machines)
        for devices in options(machine.state, sort)
    ]
    return min(found)[1:] if found else None


def test_production_allocates_at_least_what_fgd_does() -> None:
    figures = compare(make_nodes(40), seeds=1)
    assert figures["allocated"] >= max(figures["fgd_allocated"], figures["firstfit_allocated"])
    assert figures["fragmentation"] <= figures["fgd_fragmentation"]


def test_a_bad_rule_is_seen() -> None:
    nodes = make_nodes(40)
    bad, good = fill(nodes, worst_fit, 0), fill(nodes, best_fit(), 0)
    assert bad.allocated < good.allocated - 0.01
    assert bad.fragmentation > good.fragmentation


def test_the_same_seed_gives_the_same_jobs() -> None:
    assert draw(3, 50 * GPU) == draw(3, 50 * GPU) != draw(4, 50 * GPU)


@pytest.mark.parametrize("sort", [Sort(2, 0, CORE, GB), Sort(0, GPU // 2, 65 * CORE, GB)])
def test_what_does_not_fit_is_a_defect(sort: Sort) -> None:
    machine = Machine(make_nodes(40)[0])
    machine.book(HALF, (0,))
    machine.book(Sort(1, 0, 32 * CORE, GB), (1,))
    with pytest.raises(AssertionError):
        machine.book(sort, (0, 1)[: max(1, sort.gpus)])


def test_fgd_puts_a_slice_beside_the_other() -> None:
    machines = [Machine(node) for node in make_nodes(40)[:2]]
    machines[1].book(HALF, (3,))
    assert fgd()(machines, HALF) == (1, (3,))


def test_a_node_without_cpu_is_of_use_to_nobody() -> None:
    assert unusable(((GPU, GPU // 2), 0, 1 << 62)) == pytest.approx(1.5 * GPU)
    assert unusable(((0, 0), 1 << 62, 1 << 62)) == 0
