"""Stages as a drawing: which box stands where, and the lines between them. Pure.

Time goes from left to right: a stage stands right of all that it waits for. In a column stages are put near
those that they come from, which keeps most lines apart; the drawing of a graph is always the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 168, 54
"""Size of a box."""
ACROSS, BETWEEN = 64, 18
"""Room between two columns, and between two boxes of one."""
EDGE = 8
"""Around all of it."""
LONGEST = 22
"""Letters that fit into a box."""


@dataclass(frozen=True, slots=True)
class StageNode:
    """The drawn facts of a job."""

    id: str
    name: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Box:
    stage: StageNode
    x: int
    y: int

    @property
    def label(self) -> str:
        return shortened(self.stage.name)


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """A line from one stage to one that waits for it."""

    before: str
    after: str
    path: str
    """The path in SVG's notation."""


@dataclass(frozen=True, slots=True)
class Drawing:
    width: int
    height: int
    boxes: tuple[Box, ...]
    lines: tuple[GraphEdge, ...]


def shortened(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def drawing(stages: Sequence[StageNode]) -> Drawing:
    """Lay out stages in any order; dependencies that are not among them are left out."""
    known = {stage.id: stage for stage in stages}
    columns = _columns(known)
    order = _ordered(columns, known)
    tallest = max((len(column) for column in order), default=0)
    boxes = {
        id_: Box(known[id_], EDGE + place * (WIDTH + ACROSS), _top(row, len(column), tallest))
        for place, column in enumerate(order)
        for row, id_ in enumerate(column)
    }
    lines = [
        GraphEdge(before, id_, _path(boxes[before], box))
        for id_, box in boxes.items()
        for before in box.stage.after
        if before in boxes
    ]
    width = 2 * EDGE + len(order) * WIDTH + max(0, len(order) - 1) * ACROSS
    return Drawing(width, 2 * EDGE + _high(tallest), tuple(boxes.values()), tuple(lines))


def _columns(known: Mapping[str, StageNode]) -> dict[str, int]:
    """Return the column of each stage: the length of the longest path to it.

    In a cycle, which cannot be submitted, it begins with the first stage.
    """
    found: dict[str, int] = {}
    left = {id_: [one for one in stage.after if one in known] for id_, stage in known.items()}
    while left:
        ready = [id_ for id_, before in left.items() if all(one in found for one in before)]
        for id_ in ready or [next(iter(left))]:
            found[id_] = max((found.get(one, -1) for one in left.pop(id_)), default=-1) + 1
    return found


def _ordered(columns: Mapping[str, int], known: Mapping[str, StageNode]) -> list[list[str]]:
    """Each column from top to bottom: by the middle of what its stages come from."""
    order: list[list[str]] = [[] for _ in range(max(columns.values(), default=-1) + 1)]
    for id_ in known:
        order[columns[id_]].append(id_)
    rows: dict[str, float] = {}
    for column in order:
        column.sort(key=lambda id_: _middle([rows[one] for one in known[id_].after if one in rows]))
        rows |= {id_: row - (len(column) - 1) / 2 for row, id_ in enumerate(column)}
    return order


def _middle(rows: Sequence[float]) -> float:
    return sum(rows) / len(rows) if rows else 0.0


def _high(boxes: int) -> int:
    return boxes * HEIGHT + max(0, boxes - 1) * BETWEEN


def _top(row: int, of: int, tallest: int) -> int:
    """Columns with fewer boxes stand in the middle."""
    return EDGE + (_high(tallest) - _high(of)) // 2 + row * (HEIGHT + BETWEEN)


def _path(before: Box, after: Box) -> str:
    """Draw a path from the middle of a right side to the middle of a left one, level at both ends."""
    x0, y0 = before.x + WIDTH, before.y + HEIGHT // 2
    x1, y1 = after.x, after.y + HEIGHT // 2
    bend = max(ACROSS // 2, (x1 - x0) // 2)
    return f"M{x0} {y0}C{x0 + bend} {y0} {x1 - bend} {y1} {x1} {y1}"
