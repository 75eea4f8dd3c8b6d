"""The checker finds whatever is changed in a plan that holds."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from grus.partition.execution.placement_plan import Plan, Transfer
from grus.partition.execution.simulate_step import simulate
from grus.partition.graph import Op, OpGraph
from grus.partition.verification.placement_check import faults
from tests.partition.builders import a_diamond, two

GOOD = simulate(a_diamond(), two(), (0, 0, 1, 0), (0, 1, 2, 3))


def test_a_simulated_plan_has_no_fault() -> None:
    assert faults(a_diamond(), two(), GOOD) == []


def later(plan: Plan, op: int, by: float) -> Plan:
    start, end = list(plan.start), list(plan.end)
    start[op] += by
    end[op] += by
    return replace(plan, start=tuple(start), end=tuple(end))


def sent(plan: Plan, *transfers: Transfer) -> Plan:
    return replace(plan, transfers=transfers)


CHANGES: dict[str, tuple[Callable[[Plan], Plan], str]] = {
    "too few places": (lambda p: replace(p, device_of=(0, 0)), "2 places"),
    "no such device": (lambda p: replace(p, device_of=(0, 0, 7, 0)), "does not exist"),
    "an operator is missing": (lambda p: replace(p, order=((0, 1), (2,))), "every operator once"),
    "an order of another device": (lambda p: replace(p, order=((0, 1, 2, 3), ())), "runs elsewhere"),
    "two at once": (lambda p: later(p, 1, -2.0), "starts before op-0 ended"),
    "before its input": (lambda p: later(p, 2, -0.5), "starts before op-0 is there"),
    "shorter than it is": (lambda p: replace(p, end=(3.0, *p.end[1:])), "does not take"),
    "a shorter step": (lambda p: replace(p, seconds=p.seconds - 1), "the step ends"),
    "a bound that is none": (lambda p: replace(p, bound=p.seconds + 1), "the bound"),
    "less memory": (lambda p: replace(p, peaks=(p.peaks[0] - 1, p.peaks[1])), "not"),
    "nothing is sent": (lambda p: sent(p), "is there"),
    "sent twice": (lambda p: sent(p, *p.transfers, p.transfers[0]), "too often"),
    "sent early": (lambda p: sent(p, Transfer(0, 1, 3.0, 4.0), p.transfers[1]), "before it is made"),
    "sent too fast": (lambda p: sent(p, Transfer(0, 1, 4.0, 4.5), p.transfers[1]), "does not take"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_found(name: str) -> None:
    change, words = CHANGES[name]
    assert any(words in fault for fault in faults(a_diamond(), two(), change(GOOD)))


def test_two_tensors_on_one_channel_are_found() -> None:
    graph = OpGraph(tuple(Op(str(n), 1.0, output=4) for n in range(3)), ((0, 2), (1, 2)))
    plan = simulate(graph, two(), (0, 0, 1), (0, 1, 2))
    one, other = plan.transfers
    together = sent(plan, one, replace(other, start=one.start + 1, end=one.end + 1))
    assert "device 0 sends two tensors at once" in faults(graph, two(), together)
    assert "device 1 receives two tensors at once" in faults(graph, two(), together)


def test_a_device_that_is_too_small_is_found() -> None:
    assert any("and has 2" in fault for fault in faults(a_diamond(), two(2), GOOD))


def test_a_group_torn_apart_is_found() -> None:
    ops = (Op("a", 1.0, group="tied"), Op("b", 1.0, group="tied"))
    plan = simulate(OpGraph(ops, ()), two(), (0, 1), (0, 1))
    assert faults(OpGraph(ops, ()), two(), plan) == ["group tied is torn apart"]
