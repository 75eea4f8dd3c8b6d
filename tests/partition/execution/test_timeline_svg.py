"""The picture of a plan: well-formed whatever the names, small whatever the model, and true to the plan."""

from xml.etree import ElementTree

from grus.partition.execution.simulate_step import ranks, simulate
from grus.partition.execution.timeline import Strip, strips
from grus.partition.execution.timeline_svg import LEFT, RIGHT, WIDTH, svg
from grus.partition.graph import Op, OpGraph
from grus.partition.topology import Link, alike
from tests.partition.builders import a_chain, two

SPACE = "{http://www.w3.org/2000/svg}"
EVIL = '</title><script>alert(1)</script>&"<b>'


def drawn(graph: OpGraph, device_of: tuple[int, ...]) -> str:
    plan = simulate(graph, two(), device_of, ranks(graph.topological))
    return svg(strips(graph, two(), plan), "a model", "on two")


def bars(text: str, kind: str) -> list[dict[str, str]]:
    tree = ElementTree.fromstring(text)
    return [rect.attrib for rect in tree.iter(f"{SPACE}rect") if rect.get("class") == kind and rect.get("x")]


def test_an_operator_is_as_wide_as_its_part_of_the_step() -> None:
    text = drawn(a_chain(1.0, 2.0, 1.0, output=4), (0, 0, 1))  # 1 + 2 + 4 for the transfer + 1
    inner = WIDTH - LEFT - RIGHT
    widths = [float(one["width"]) for one in bars(text, "forward")]
    legend, first, second, third = widths
    assert legend == 10
    assert [round(one / inner, 3) for one in (first, second, third)] == [0.125, 0.25, 0.125]
    assert [round(float(one["width"]) / inner, 3) for one in bars(text, "sends")[1:]] == [0.5]


def test_names_cannot_break_the_picture() -> None:
    graph = OpGraph((Op(EVIL, 1.0, 1, 0, 1),), ())
    plan = simulate(graph, two(), (0,), (0,))
    shown = [Strip(EVIL, one.memory, one.stretches, one.usage) for one in strips(graph, two(), plan)]
    text = svg(shown, EVIL, EVIL)
    tree = ElementTree.fromstring(text)
    assert EVIL in [one.text for one in tree.iter(f"{SPACE}text")]
    assert not list(tree.iter("script"))


def test_thousands_of_operators_make_a_small_picture() -> None:
    graph = a_chain(*([0.001] * 6000))
    device_of = tuple(int(number >= 3000) for number in range(6000))
    topology = alike([10_000, 10_000], Link(0.1))
    plan = simulate(graph, topology, device_of, ranks(graph.topological))
    text = svg(strips(graph, topology, plan), "long")
    assert len(text) < 150_000
    assert "op-0 … " in text
    assert "op-5999 (" in text


def test_a_step_without_any_time_can_be_drawn() -> None:
    assert ElementTree.fromstring(drawn(a_chain(0.0, output=0), (0,))) is not None


def test_the_curve_reaches_the_cap_exactly_when_the_memory_is_full() -> None:
    graph = a_chain(1.0, permanent=99, output=1)
    tree = ElementTree.fromstring(drawn(graph, (0,)))
    full, empty = (one.get("points", "") for one in tree.iter(f"{SPACE}polygon"))
    caps = [float(one.get("y1", "")) for one in tree.iter(f"{SPACE}line") if one.get("class") == "cap"]

    def highest(points: str) -> float:
        return min(float(point.split(",")[1]) for point in points.split())

    assert highest(full) == caps[0]
    assert highest(empty) > caps[1]
