"""Tables and line charts for the notebooks here: values that Jupyter knows how to show, made of text only."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#8a8f98", "#d9730d", "#2f6fde", "#1f9d8a", "#b04fc4")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, FOOT = 420, 270, 52, 14, 58, 40
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1c2024 } .soft { fill: #6b7280 }
.title { font-weight: 600; font-size: 13px }
.back { fill: #ffffff } .grid { stroke: #d9dce1 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e8eb } .soft { fill: #9aa1ab } .back { fill: #15181c } .grid { stroke: #363b42 }
}
"""


@dataclass(frozen=True)
class Table:
    """Rows of cells under a heading."""

    heading: Sequence[str]
    rows: Sequence[Sequence[object]]

    def _repr_markdown_(self) -> str:
        lines = [self.heading, ["---"] * len(self.heading), *self.rows]
        return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)

    def __repr__(self) -> str:
        lines = [[*map(str, line)] for line in (self.heading, *self.rows)]
        wide = [max(len(line[place]) for line in lines) for place in range(len(self.heading))]
        shown = ("  ".join(cell.ljust(size) for cell, size in zip(line, wide, strict=True)) for line in lines)
        return "\n".join(line.rstrip() for line in shown)


Points = Sequence[tuple[float, float, float]]
"""(across, mean, half of the interval)"""


@dataclass(frozen=True)
class Lines:
    """One line a name, with intervals; the same places across for all."""

    title: str
    across: str
    lines: Mapping[str, Points]
    low: float = 0.0

    def __repr__(self) -> str:
        return f"{self.title}: {', '.join(self.lines)}"

    def _repr_svg_(self) -> str:
        return page([self])

    def drawn(self, shift: float) -> list[str]:
        """The parts of the picture, `shift` pixels to the right."""
        axes = Axes.around(self, shift)
        parts = [_text(shift + 12, 18, self.title, "title", "start"), *axes.grid()]
        middle = (axes.x(axes.first) + axes.x(axes.last)) / 2
        parts.append(_text(middle, HEIGHT - 8, self.across))
        place = shift + LEFT
        for (name, points), colour in zip(self.lines.items(), COLOURS, strict=False):
            parts += axes.line(points, colour)
            parts.append(f'<rect x="{place:.1f}" y="31" width="10" height="10" fill="{colour}"/>')
            parts.append(_text(place + 14, 40, name, anchor="start"))
            place += 30 + 6.4 * len(name)
        return parts


@dataclass(frozen=True)
class Axes:
    """Where a chart's values lie on the page."""

    shift: float
    places: Sequence[float]
    low: float
    high: float

    @classmethod
    def around(cls, chart: Lines, shift: float) -> "Axes":
        high = max(mean + spread for points in chart.lines.values() for _, mean, spread in points)
        places = [at for at, _, _ in next(iter(chart.lines.values()))]
        return cls(shift, places, chart.low, chart.low + (high - chart.low) * 1.05)

    @property
    def first(self) -> float:
        return self.places[0]

    @property
    def last(self) -> float:
        return self.places[-1]

    def x(self, at: float) -> float:
        inner = WIDTH - LEFT - RIGHT
        return self.shift + LEFT + inner * (at - self.first) / (self.last - self.first)

    def y(self, value: float) -> float:
        return HEIGHT - FOOT - (HEIGHT - TOP - FOOT) * (value - self.low) / (self.high - self.low)

    def grid(self) -> Iterator[str]:
        step = _step((self.high - self.low) / 5)
        left, right = self.x(self.first), self.x(self.last)
        for count in range(int((self.high - self.low) / step) + 1):
            level = self.low + count * step
            up = self.y(level)
            yield f'<line class="grid" x1="{left:.1f}" x2="{right:.1f}" y1="{up:.1f}" y2="{up:.1f}"/>'
            yield _text(left - 6, up + 4, f"{level:g}", anchor="end")
        for at in self.places:
            yield _text(self.x(at), HEIGHT - FOOT + 16, f"{at:g}")

    def line(self, points: Points, colour: str) -> Iterator[str]:
        band = [f"{self.x(at):.1f},{self.y(mean + wide):.1f}" for at, mean, wide in points]
        band += [f"{self.x(at):.1f},{self.y(mean - wide):.1f}" for at, mean, wide in reversed(points)]
        curve = " ".join(f"{self.x(at):.1f},{self.y(mean):.1f}" for at, mean, _ in points)
        yield f'<polygon points="{" ".join(band)}" fill="{colour}" fill-opacity=".15"/>'
        yield f'<polyline points="{curve}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _text(x: float, y: float, words: str, kind: str = "soft", anchor: str = "middle") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


@dataclass(frozen=True)
class Beside:
    """Several charts in a row."""

    charts: Sequence[Lines]

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.charts))

    def _repr_svg_(self) -> str:
        return page(self.charts)


def page(charts: Sequence[Lines]) -> str:
    wide = WIDTH * len(charts)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{HEIGHT}" '
        f'viewBox="0 0 {wide} {HEIGHT}">',
        f"<style>{STYLE}</style>",
        f'<rect class="back" width="{wide}" height="{HEIGHT}"/>',
    ]
    for number, chart in enumerate(charts):
        parts += chart.drawn(number * WIDTH)
    return "\n".join([*parts, "</svg>"])


def _step(least: float) -> float:
    power = 1e-6
    while True:
        for one in (1, 2, 5):
            if one * power >= least:
                return one * power
        power *= 10
