"""Draw docs/pictures/elastic-training.svg from a real run: `python tools/elastic_picture.py`.

One run grows, shrinks, loses workers by kill -9 and by a hang, and is paused and resumed; another has one
worker and nothing happens to it. Both losses are drawn, and below them the number of workers.
"""

import html
import signal
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from grus.elastic.selftest.conductor import Conductor, Worker
from grus.elastic.selftest.events import undisturbed
from grus.elastic.selftest.program import STEPS

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "elastic-training.svg"
WIDTH, HEIGHT, LEFT, TOP, LOSS_HEIGHT, GAP = 960, 420, 56, 64, 230, 34
RIGHT, BOTTOM = 20, 40
BETWEEN = 30
"""Steps between two events."""
WORKERS = 4


@dataclass
class Course:
    """What happened at which step, and with how many workers the run went on."""

    events: list[tuple[int, str]] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)


def play(run: Conductor) -> Course:
    course = Course()
    first, *others = run.start(range(WORKERS))
    run.ready([first, *others])

    def change(name: str, members: list[Worker], *, lost: bool = False) -> None:
        if name:
            course.events.append((run.limit, name))
        course.sizes.append((run.limit, len(members)))
        run.form(members, lost=lost)
        run.allow(run.limit + 1)
        run.trained(BETWEEN)

    change("", [first])
    change("grow to 4", [first, *others])
    change("shrink to 2", [first, others[0]])
    spare = run.start([2, 3])
    run.ready(spare)
    change("grow to 4", [first, others[0], *spare])
    run.kill(first)
    change("kill -9 of the first", [others[0], *spare], lost=True)
    spare[-1].process.send_signal(signal.SIGSTOP)
    stopped_at = run.limit
    run.allow(run.limit + 1)
    waiting = [others[0], spare[0]]
    run.until(lambda: any(one.elastic("waits") is not None for one in waiting), "a complaint", *waiting)
    run.kill(spare[-1])
    change("", waiting, lost=True)
    course.events.append((stopped_at, "one hangs"))
    course.events.append((run.limit, "pause, resume with 4"))
    run.pause()
    run.paused()
    workers = run.start(range(WORKERS))
    run.ready(workers)
    course.sizes.append((run.limit, len(workers)))
    run.form(workers)
    run.allow(STEPS)
    run.ended(workers)
    return course


def losses(run: Conductor) -> dict[int, float]:
    found: dict[int, float] = {}
    for path in sorted(run.folder.glob("losses-*")):
        for line in path.read_text().splitlines():
            step, loss = line.split()
            found.setdefault(int(step), float(loss))
    return found


def draw(course: Course, disturbed: dict[int, float], calm: dict[int, float]) -> str:
    most = max(*disturbed.values(), *calm.values())
    base = TOP + LOSS_HEIGHT
    sizes_top, sizes_base = base + GAP, HEIGHT - BOTTOM

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / STEPS

    def y(loss: float) -> float:
        return base - LOSS_HEIGHT * loss / most

    def size_y(size: int) -> float:
        return sizes_base - (sizes_base - sizes_top) * size / WORKERS

    def curve(values: dict[int, float]) -> str:
        return " ".join(f"{x(step):.1f},{y(values[step]):.1f}" for step in sorted(values))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12" fill="#333">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<polyline points="{curve(calm)}" fill="none" stroke="#f2b84b" stroke-width="7" opacity="0.7"/>',
        f'<polyline points="{curve(disturbed)}" fill="none" stroke="#22577a" stroke-width="1.5"/>',
    ]
    for number, (step, name) in enumerate(sorted(course.events)):
        height = TOP - 8 - 16 * (number % 3)
        parts.append(
            f'<line x1="{x(step):.1f}" x2="{x(step):.1f}" y1="{height + 3}" y2="{sizes_base}" stroke="#999" '
            f'stroke-dasharray="3 3"/><text x="{x(step) + 3:.1f}" y="{height}">{html.escape(name)}</text>'
        )
    path = f"M{x(0):.1f},{sizes_base}"
    for (step, size), (end, _) in zip(course.sizes, [*course.sizes[1:], (STEPS, 0)], strict=True):
        path += f" L{x(step):.1f},{size_y(size):.1f} L{x(end):.1f},{size_y(size):.1f}"
    parts.append(f'<path d="{path} L{x(STEPS):.1f},{sizes_base} Z" fill="#80b192" opacity="0.8"/>')
    for loss in (0.0, 0.5, 1.0):
        parts.append(f'<text x="{LEFT - 8}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:g}</text>')
    for size in (0, 2, WORKERS):
        parts.append(f'<text x="{LEFT - 8}" y="{size_y(size) + 4:.1f}" text-anchor="end">{size}</text>')
    for step in range(0, STEPS + 1, 40):
        parts.append(f'<text x="{x(step):.1f}" y="{HEIGHT - 22}" text-anchor="middle">{step}</text>')
    parts += [
        f'<g font-weight="bold"><text x="{LEFT + 40}" y="{base - 16}" fill="#22577a">'
        "— loss of a run to which all this happened</text>"
        f'<text x="{LEFT + 360}" y="{base - 16}" fill="#b07a10">▬ of one to which nothing did</text></g>',
        f'<text x="{LEFT}" y="{sizes_top - 8}">workers</text>',
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">step</text>',
        "</svg>\n",
    ]
    return "\n".join(parts)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        calm = undisturbed(Path(folder) / "calm", "gloo", gpus=False)
        with Conductor(Path(folder) / "run", "gloo") as run:
            course = play(run)
            PICTURE.write_text(draw(course, losses(run), calm), encoding="utf-8")


if __name__ == "__main__":
    main()
