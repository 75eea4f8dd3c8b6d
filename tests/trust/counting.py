"""What the runs in the ledger have come to together, and what of it counts for this state of the sources.

Runs of proofs by chance add up, over states too: most changes of the sources touch little of what a history
or a kill goes through, and how much was tried on this very state is told beside the sum. A run that broke a
promise ends the count: what was tried before it had not found the fault. And no run of a state that broke a
promise counts: that the next one was lucky mends nothing.

Proofs that try the same in every run do not add up: the latest one counts, and a new state wants a new one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from tests.trust.ledger import Run
from tests.trust.parts import FAILED, PROMISES, Figures, Part, Promise

MEASURES = ("_s", "_ms", "_mb", "_per_min")
"""How names of times, sizes and slopes end."""


def number(value: object) -> float:
    return value if isinstance(value, int | float) else 0


def broken_by(run: Run, promises: Sequence[Promise] = PROMISES) -> list[Promise]:
    """The promises that it did not keep: all of its part, if it failed and none of them says why."""
    own = [one for one in promises if one.part == run.part]
    return tells_against(run, own) or (own if run.figures.get(FAILED) else [])


def tells_against(run: Run, promises: Sequence[Promise] = PROMISES) -> list[Promise]:
    """The promises that a figure of it speaks against."""
    return [one for one in promises if one.part == run.part and not kept(one, run.figures)]


def kept(promise: Promise, figures: Figures) -> bool:
    """Whether nothing is told against it."""
    value = figures.get(promise.figure)
    return not isinstance(value, int | float) or promise.kept(float(value), figures)


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a part has come."""

    part: Part
    promises: tuple[Promise, ...]
    """Of this part."""
    state: str
    counted: tuple[Run, ...]
    broken: tuple[Run, ...]
    """All that broke a promise, on whatever state."""

    @property
    def figures(self) -> Figures:
        return reduce(lambda before, now: added(self.part, before, now.figures), self.counted, {})

    def reached(self, promise: Promise) -> float:
        """How much was tried by the runs that told the figure of this promise."""
        return self._tried(promise, lambda _: True)

    def here(self, promise: Promise) -> float:
        """How much of it on this state."""
        return self._tried(promise, lambda run: run.state == self.state)

    def states(self, promise: Promise) -> int:
        """On how many states."""
        return len({run.state for run in self.counted if promise.figure in run.figures})

    def _tried(self, promise: Promise, of: Callable[[Run], bool]) -> float:
        runs = [run for run in self.counted if promise.figure in run.figures and of(run)]
        return sum(number(run.figures.get(self.part.size)) for run in runs)

    def breaks_here(self, promise: Promise) -> Run | None:
        """The latest run on this state that broke the promise, if it says anything of it."""
        found = [
            run for run in self.broken if run.state == self.state and promise in broken_by(run, self.promises)
        ]
        replaced = self.part.repeats and self.counted
        return found[-1] if found and not replaced else None

    @property
    def whole(self) -> bool:
        return all(self.reached(promise) >= self.part.full for promise in self.promises)

    @property
    def due(self) -> bool:
        """Whether another run has something to add."""
        if self.part.repeats:
            return any(self.here(promise) < self.part.full for promise in self.promises)
        return not self.whole and not any(map(self.breaks_here, self.promises))


def standing(part: Part, runs: Sequence[Run], state: str, promises: Sequence[Promise] = PROMISES) -> Standing:
    """Of the runs of this part, the oldest first."""
    own = tuple(one for one in promises if one.part == part.name)
    broken = {place: run for place, run in enumerate(runs) if broken_by(run, own)}
    since = runs[max(broken, default=-1) + 1 :]
    counted = since[-1:] if part.repeats else without_repeats(since, {run.state for run in broken.values()})
    return Standing(part, own, state, tuple(counted), tuple(broken.values()))


def without_repeats(runs: Sequence[Run], broken: set[str]) -> list[Run]:
    """Those of no broken state; of several clones that went through the same seeds the first."""
    found: list[Run] = []
    for run in runs:
        if run.state not in broken and not any(overlap(run, other) for other in found):
            found.append(run)
    return found


def overlap(one: Run, other: Run) -> bool:
    if one.seeds is None or other.seeds is None:
        return False
    return one.seeds[0] <= other.seeds[1] and other.seeds[0] <= one.seeds[1]


def added(part: Part, before: Figures, now: Figures) -> dict[str, object]:
    """The figures of the runs before and of this one: counts added, times and sizes by the largest."""
    sum_: dict[str, object] = {**before, **now}
    for name in before.keys() & now.keys():
        old, new = before[name], now[name]
        if isinstance(new, int | float) and not isinstance(new, bool):
            sum_[name] = max(number(old), new) if largest_counts(part, name) else number(old) + new
    return sum_


def largest_counts(part: Part, name: str) -> bool:
    """Whether of several runs the largest figure is told, not their sum."""
    return name in part.most or name.endswith(MEASURES)
