"""Drawing of a plan: a self-contained SVG, with a strip for each device.

A strip shows the operators it computes, its transfers, and its memory over time against its cap. The browser
chooses light or dark by the reader's settings. The same plan gives the same bytes; stretches that are too
narrow to be seen are merged, so that a model of thousands of operators stays a small file.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from grus.partition.execution.timeline import COMPUTING, ActivityKind, Stretch, Strip

WIDTH, LEFT, RIGHT = 960, 16, 16
HEAD, FOOT = 64, 8
LABEL, COMPUTE, TRANSFER, CURVE, GAP = 18, 28, 10, 60, 22
"""Heights of the parts of a strip, from above: its name, operators, transfers, memory, air."""
NARROW = 1.5
"""Pixels: what is narrower is drawn together with its neighbors."""
THIN = 1.2
"""Pixels that anything takes: a short transfer would not be seen."""
LETTER = 6.6
"""Pixels that a letter of a label takes, about."""
FINE = 0.5
"""Pixels between two points of the curve of memory."""

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1c2024 }
.title { font-size: 15px; font-weight: 600 } .soft { fill: #6b7280 } .on { fill: #ffffff; font-size: 11px }
.back { fill: #ffffff } .lane { fill: #f5f6f8 } .tick { stroke: #d9dce1 }
.forward { fill: #2f6fde } .backward { fill: #d9730d } .sends { fill: #1f9d8a } .receives { fill: #8fd3c8 }
.memory { fill: #8a8f98; fill-opacity: .45; stroke: #8a8f98; stroke-width: 1 }
.cap { stroke: #d6496c; stroke-width: 1.2; stroke-dasharray: 5 4 }
rect.forward, rect.backward { stroke: #ffffff; stroke-width: .4 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e8eb } .soft { fill: #9aa1ab } .on { fill: #ffffff } .back { fill: #15181c }
  .lane { fill: #1e2227 } .tick { stroke: #363b42 } .receives { fill: #2d6a60 }
  rect.forward, rect.backward { stroke: #15181c }
}
"""
LEGEND = (
    ("forward", "forward"),
    ("backward", "backward"),
    ("sends", "sends"),
    ("receives", "receives"),
    ("memory", "memory in use"),
)
TICKS = (1.0, 2.0, 5.0)
UNITS = ((1.0, 1.0, "s"), (1e-3, 1e-3, "ms"), (0.0, 1e-6, "µs"))
"""(from so many seconds on, seconds of the unit, name)"""


def svg(strips: Sequence[Strip], title: str, note: str = "") -> str:
    """The whole picture. `note` is a second line below the title."""
    seconds = max((one.end for strip in strips for one in strip.stretches), default=0.0) or 1.0
    each = LABEL + COMPUTE + TRANSFER + CURVE + GAP
    height = HEAD + each * len(strips) + FOOT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{height}"/>',
        f'<text class="title" x="{LEFT}" y="24">{escape(title)}</text>',
        f'<text class="soft" x="{LEFT}" y="43">{escape(note)}</text>',
        *_legend(),
    ]
    for number, strip in enumerate(strips):
        parts += _strip(strip, HEAD + each * number, seconds)
    parts += _axis(seconds, HEAD + each * len(strips) - GAP + 6, HEAD)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend() -> Iterator[str]:
    """Yield the legend, at the right, above the strips."""
    place = float(WIDTH - RIGHT)
    for name, words in reversed(LEGEND):
        place -= LETTER * len(words) + 4
        yield f'<text class="soft" x="{place:.1f}" y="{HEAD - 6}">{words}</text>'
        place -= 14
        yield f'<rect class="{name}" x="{place:.1f}" y="{HEAD - 15}" width="10" height="10"/>'
        place -= 12


def _strip(strip: Strip, top: float, seconds: float) -> Iterator[str]:
    inner = WIDTH - LEFT - RIGHT
    share = strip.busy / seconds
    words = f"{_size(strip.peak)} of {_size(strip.memory)} at most, computes {share:.0%} of the step"
    yield f'<text x="{LEFT}" y="{top + 12}">{escape(strip.device)}</text>'
    indent = LEFT + 14 + LETTER * len(strip.device)
    yield f'<text class="soft" x="{indent:.1f}" y="{top + 12}">{words}</text>'
    top += LABEL
    yield f'<rect class="lane" x="{LEFT}" y="{top}" width="{inner}" height="{COMPUTE + TRANSFER + CURVE}"/>'
    yield from _lane(strip.stretches, top, seconds)
    yield from _curve(strip, top + COMPUTE + TRANSFER, seconds)


def _lane(stretches: Iterable[Stretch], top: float, seconds: float) -> Iterator[str]:
    shown = list(stretches)
    computed = [one for one in shown if one.kind in COMPUTING]
    for run in _together(computed, seconds):
        yield from _bar(run, top, COMPUTE - 2, seconds, label=True)
    half = TRANSFER / 2
    for kind, place in ((ActivityKind.SENDS, 0.0), (ActivityKind.RECEIVES, half)):
        for run in _together([one for one in shown if one.kind is kind], seconds):
            yield from _bar(run, top + COMPUTE + place, half - 0.5, seconds, label=False)


def _together(stretches: Sequence[Stretch], seconds: float) -> Iterator[list[Stretch]]:
    """Neighbors of a kind, where one of them is too narrow to be seen and no gap is."""
    run: list[Stretch] = []
    for one in stretches:
        if run and not _joins(run, one, seconds):
            yield run
            run = []
        run.append(one)
    if run:
        yield run


def _joins(run: Sequence[Stretch], one: Stretch, seconds: float) -> bool:
    narrow = min(_wide(run[0].begin, run[-1].end, seconds), _wide(one.begin, one.end, seconds)) < NARROW
    return run[0].kind is one.kind and narrow and _wide(run[-1].end, one.begin, seconds) < FINE


def _bar(run: Sequence[Stretch], top: float, height: float, seconds: float, label: bool) -> Iterator[str]:
    first, last = run[0], run[-1]
    left, wide = _across(first.begin, seconds), _wide(first.begin, last.end, seconds)
    if wide <= 0:
        return
    yield (
        f'<rect class="{first.kind}" x="{left:.2f}" y="{top:.1f}" width="{max(wide, THIN):.2f}" '
        f'height="{height:.1f}"><title>{escape(_words(run))}</title></rect>'
    )
    if label and len(run) == 1 and LETTER * len(first.name) + 6 < wide:
        middle = left + wide / 2
        yield (
            f'<text class="on" x="{middle:.1f}" y="{top + height / 2 + 4:.1f}" text-anchor="middle">'
            f"{escape(first.name)}</text>"
        )


def _words(run: Sequence[Stretch]) -> str:
    """Return the text shown under the pointer."""
    first, last = run[0], run[-1]
    many = "" if len(run) == 1 else f" … {last.name} ({len(run)})"
    moved = f", {_size(sum(one.size for one in run))}" if first.size else ""
    verb = {ActivityKind.SENDS: "to ", ActivityKind.RECEIVES: "from "}.get(first.kind, "")
    peer = f" {verb}{first.peer}" if first.peer else ""
    return f"{first.name}{many}{moved}{peer}, {_time(first.begin)} to {_time(last.end)}"


def _curve(strip: Strip, top: float, seconds: float) -> Iterator[str]:
    """Memory from below, the cap as a line; both fit whichever is higher."""
    highest = max(strip.memory, strip.peak, 1)
    foot = top + CURVE
    points = [f"{LEFT:.1f},{foot:.1f}"]
    level = foot
    for place, size in _thinned(strip.usage, seconds):
        points.append(f"{place:.1f},{level:.1f}")
        level = foot - (CURVE - 4) * size / highest
        points.append(f"{place:.1f},{level:.1f}")
    points += [f"{WIDTH - RIGHT:.1f},{level:.1f}", f"{WIDTH - RIGHT:.1f},{foot:.1f}"]
    yield f'<polygon class="memory" points="{" ".join(points)}"/>'
    cap = foot - (CURVE - 4) * strip.memory / highest
    yield f'<line class="cap" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{cap:.1f}" y2="{cap:.1f}"/>'


def _thinned(usage: Sequence[tuple[float, int]], seconds: float) -> Iterator[tuple[float, int]]:
    """Yield, for each distinguishable point, the maximum
    that was in use there, then the value that was left.
    """
    place, most, last = float(LEFT), 0, 0
    for at, size in usage:
        here = _across(at, seconds)
        if here - place >= FINE:
            yield place, most
            if last != most:
                yield place + FINE / 2, last
            place, most = here, size
        most, last = max(most, size), size
    yield place, most
    if last != most:
        yield place + FINE / 2, last


def _axis(seconds: float, foot: float, top: float) -> Iterator[str]:
    """Seconds below the strips, at round numbers."""
    unit, name = next((size, name) for least, size, name in UNITS if seconds >= least)
    step = _round_step(seconds / unit / 8)
    for count in range(int(seconds / unit / step) + 1):
        place = _across(count * step * unit, seconds)
        words = f"{count * step:g} {name}"
        yield f'<line class="tick" x1="{place:.1f}" x2="{place:.1f}" y1="{top}" y2="{foot}" opacity=".5"/>'
        anchor = "start" if not count else "middle" if place < WIDTH - RIGHT - 20 else "end"
        yield f'<text class="soft" x="{place:.1f}" y="{foot + 14}" text-anchor="{anchor}">{words}</text>'


def _round_step(least: float) -> float:
    """The next of 1, 2, 5, 10, … times a power of ten."""
    power = 1e-9
    while True:
        for one in TICKS:
            if one * power >= least:
                return one * power
        power *= 10


def _across(at: float, seconds: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * at / seconds


def _wide(begin: float, end: float, seconds: float) -> float:
    return (WIDTH - LEFT - RIGHT) * (end - begin) / seconds


def _time(at: float) -> str:
    size, name = next((size, name) for least, size, name in UNITS if at >= least)
    return f"{at / size:.3g} {name}"


def _size(amount: float) -> str:
    left = float(amount)
    for unit in ("B", "kB", "MB"):
        if left < 1000:
            return f"{left:.3g} {unit}"
        left /= 1000
    return f"{left:.3g} GB"
