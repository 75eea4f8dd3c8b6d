"""Draw docs/pictures/rhythm.svg: `python -m tools.rhythm_picture`.

Above, the utilisation of a made-up training: the rhythm that is recognised in it, the epochs that follow from
it, and the forecast of its next minutes beside what then came. Below, a load that drifts without a rhythm:
nothing is told of it. What is drawn is what the product says.
"""

from pathlib import Path

import numpy as np

from benchmarks.periods_traces import Floats, drifting, measured, training
from grus.patterns.demand_forecast import Forecast, forecast
from grus.patterns.periods import Rhythm, rhythm

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "rhythm.svg"
WIDTH, HEIGHT, LEFT, RIGHT, BAND = 960, 360, 48, 30, 110
SHOWN, AHEAD = 900, 180
"""Seconds that are drawn, and the last of them that are foretold."""
SEED = 11


def a_training() -> tuple[Floats, Rhythm, Forecast]:
    """A series, what is recognised in it before its last minutes, and what is foretold of those."""
    chance = np.random.default_rng(SEED)
    while True:
        trace = training(chance, period=60.0)
        if len(trace.values) < SHOWN + 600 or trace.sort != "evaluation":
            continue
        values = trace.values[: SHOWN + 600]
        known = values[:-AHEAD]
        found = rhythm(known, trace.step)
        if found is None:
            continue
        told = forecast(known, trace.step, AHEAD, seasons=(found.period,), most=1.0)
        if isinstance(told, Forecast):
            return values, found, told


def a_drift() -> Floats:
    chance = np.random.default_rng(SEED)
    values = measured(0.5 + 0.2 * drifting(SHOWN + 600, 0.98, chance))
    assert rhythm(values, 1.0) is None, "a drift has no rhythm"
    return values


def x(second: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * second / SHOWN


def curve(values: Floats, top: float, first: int = 0) -> str:
    return " ".join(f"{x(first + i):.1f},{top + BAND * (1 - v):.1f}" for i, v in enumerate(values.tolist()))


def line(values: Floats, top: float, colour: str, first: int = 0) -> str:
    return (
        f'<polyline points="{curve(values, top, first)}" fill="none" stroke="{colour}" stroke-width="1.4"/>'
    )


def axis(top: float) -> list[str]:
    marks = [
        f'<text x="{LEFT - 6}" y="{top + BAND * (1 - share) + 4:.0f}" text-anchor="end">{share:.0%}</text>'
        for share in (0.0, 0.5, 1.0)
    ]
    return [
        f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{BAND}" fill="#f6f6f4"/>',
        *marks,
    ]


def draw() -> str:
    values, found, told = a_training()
    begin = len(values) - SHOWN
    top, low = 40.0, 210.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12" fill="#333">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *axis(top),
        *axis(low),
    ]
    edge = found.boundary
    while edge - found.period > begin:
        edge -= found.period
    while edge < begin + SHOWN:
        parts.append(
            f'<line x1="{x(edge - begin):.1f}" x2="{x(edge - begin):.1f}" y1="{top}" y2="{top + BAND}" '
            'stroke="#c8553d" stroke-dasharray="4 3"/>'
        )
        edge += found.period
    first = SHOWN - AHEAD
    back = curve(told.low, top, first).split(" ")[::-1]
    parts += [
        f'<polygon points="{curve(told.high, top, first)} {" ".join(back)}" fill="#f2b84b" opacity="0.45"/>',
        line(values[begin:], top, "#22577a"),
        line(told.median, top, "#b07a10", first),
        f'<text x="{LEFT}" y="{top - 12}" font-weight="bold">a training: a period of {found.period:.1f} s '
        f"(confidence {found.confidence:.2f}), epochs as they are told, "
        f"and its next {AHEAD // 60} minutes, nine in ten inside the band</text>",
        line(a_drift()[:SHOWN], low, "#22577a"),
        f'<text x="{LEFT}" y="{low - 12}" font-weight="bold">a load that drifts: no rhythm is told</text>',
        *(
            f'<text x="{x(second):.0f}" y="{low + BAND + 16}" text-anchor="middle">{second // 60} min</text>'
            for second in range(0, SHOWN + 1, 180)
        ),
        "</svg>\n",
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
