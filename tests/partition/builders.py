"""Small models and devices, and random ones for hypothesis."""

from hypothesis import strategies as st

from grus.partition.graph import Op, OpGraph
from grus.partition.topology import Device, Link, Topology, alike

SLOW = Link(1.0)
"""A second a byte: transfers are easy to see."""


def a_chain(*seconds: float, permanent: int = 1, output: int = 1) -> OpGraph:
    ops = tuple(Op(f"op-{n}", one, permanent, 0, output) for n, one in enumerate(seconds))
    return OpGraph(ops, tuple((n, n + 1) for n in range(len(ops) - 1)))


def a_diamond(output: int = 1, permanent: int = 1) -> OpGraph:
    """One operator, two that could run beside each other, one that reads both."""
    ops = tuple(Op(f"op-{n}", 4.0, permanent, 0, output) for n in range(4))
    return OpGraph(ops, ((0, 1), (0, 2), (1, 3), (2, 3)))


def two(memory: int = 100, link: Link = SLOW) -> Topology:
    return alike([memory, memory], link)


@st.composite
def models(draw: st.DrawFn, most: int = 10) -> OpGraph:
    """Any graph: no edges or many, operators that take no time or no memory, groups across it."""
    count = draw(st.integers(1, most))
    sizes = st.integers(0, 8)
    ops = []
    for number in range(count):
        output, saved = draw(sizes), draw(st.booleans())
        permanent = draw(sizes) + (output if saved else 0)
        seconds = draw(st.sampled_from((0.0, 0.1, 1.0, 1.7, 5.0)))
        group = draw(st.sampled_from(("", "", "", "tied", "other")))
        temporary = draw(sizes) if seconds else 0
        ops.append(Op(f"op-{number}", seconds, permanent, temporary, output, saved, group))
    pairs = [(one, later) for later in range(count) for one in range(later)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=3 * count)) if pairs else []
    return OpGraph(tuple(ops), tuple(edges))


@st.composite
def pools(draw: st.DrawFn, least: int = 0, most: int = 150) -> Topology:
    """Devices that differ in memory and speed, every link different."""
    count = draw(st.integers(1, 4))
    devices = tuple(
        Device(f"gpu-{n}", draw(st.integers(least, most)), draw(st.sampled_from((0.5, 1.0, 2.0))))
        for n in range(count)
    )
    link = st.builds(Link, st.sampled_from((0.0, 0.01, 0.3)), st.sampled_from((0.0, 0.2)))
    return Topology(devices, tuple(tuple(draw(link) for _ in devices) for _ in devices))
