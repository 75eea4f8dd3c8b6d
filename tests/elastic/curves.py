"""What a run has done, read from what its workers wrote down: losses, parameters, steps done again."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Line:
    """A step that one process committed."""

    attempt: int
    team: int
    rank: int
    world: int
    step: int
    losses: tuple[float, ...]
    hash: str


def lines(folder: Path) -> dict[str, list[Line]]:
    """By process."""
    return {path.name: list(_read(path)) for path in sorted((folder / "steps").iterdir())}


def _read(path: Path) -> Iterator[Line]:
    for text in path.read_bytes().split(b"\n")[:-1]:
        said: dict[str, Any] = json.loads(text)
        yield Line(**{**said, "losses": tuple(said["losses"])})


def unequal(found: Mapping[str, Sequence[Line]]) -> list[tuple[int, int, int]]:
    """(attempt, team, step) after which members of one team had different parameters."""
    hashes: dict[tuple[int, int, int], set[str]] = defaultdict(set)
    for own in found.values():
        for line in own:
            hashes[line.attempt, line.team, line.step].add(line.hash)
    return sorted(where for where, different in hashes.items() if len(different) > 1)


def curve(found: Mapping[str, Sequence[Line]]) -> list[tuple[float, ...]]:
    """The losses of every step, as the last team that committed it saw them."""
    last: dict[int, Line] = {}
    for own in found.values():
        for line in own:
            before = last.get(line.step, line)
            if (before.attempt, before.team) <= (line.attempt, line.team):
                last[line.step] = line
    assert sorted(last) == list(range(len(last))), "steps are missing"
    return [last[step].losses for step in range(len(last))]


def distance(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> float:
    """The largest relative difference of any loss at any step."""
    assert len(one) == len(other), f"{len(one)} steps and {len(other)} steps"
    return max(
        abs(a - b) / max(abs(a), abs(b), 1e-12)
        for left, right in zip(one, other, strict=True)
        for a, b in zip(left, right, strict=True)
    )


def redone(folder: Path) -> int:
    """The largest number of steps that any process began a second time because of one change of team."""
    worst = 0
    for path in (folder / "audit").glob("*.jsonl"):
        begun: dict[int, set[int]] = defaultdict(set)
        for text in path.read_bytes().split(b"\n")[:-1]:
            said = json.loads(text)
            if "samples" in said:
                begun[said["team"]].add(said["step"])
        teams = sorted(begun)
        for before, after in pairwise(teams):
            worst = max(worst, sum(step >= min(begun[after]) for step in begun[before]))
    return worst
