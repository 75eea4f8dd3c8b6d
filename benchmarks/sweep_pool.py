"""A pool of equal GPUs in virtual time, and who searches on it: Grus, Optuna's ASHA pruner, random.

An epoch takes one unit of time on one GPU; each start, and each start after a pause, takes `BOOT` more. A
side is done when a trial first reports the target. Counted is all time in which a GPU was held until then, by
whichever trial. Whoever has not reached it at `LIMIT` is counted with what was held by then.
"""

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.sweep_tasks import Floats, Task
from grus.model.jobs import Phase
from grus.model.sweep_search import Params, Sweep
from grus.tuning.decide_trials import Room, decide
from grus.tuning.optuna_samplers import distribution
from grus.tuning.orders import Finish, Order, Pause, Resume, Start, Stop
from grus.tuning.rungs import rungs
from grus.tuning.sweep_trials import TrialView

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.trial import Trial

BOOT = 0.25
LIMIT = 400.0
"""Units of time: some five whole trainings one after another."""


@dataclass(frozen=True, slots=True)
class Outcome:
    reached: bool
    time: float
    gpu_time: float
    trials: int
    utilisation: float = 1.0


@dataclass(slots=True)
class Held:
    """A trial in the pool."""

    number: int
    params: Params
    run: Iterator[float]
    phase: Phase = Phase.PENDING
    held_back: bool = False
    curve: list[tuple[float, float]] = field(default_factory=list)
    heard: int = 0
    """Length of its curve when it was last started."""
    since: float = 0.0
    turn: int = 0
    """Counts starts and ends, so that what was due of an earlier turn is known as past."""
    seen: TrialView | None = None

    def view(self) -> TrialView:
        """Made anew only when something has changed: most trials of a search rest."""
        if self.seen is None:
            self.seen = TrialView(
                number=self.number,
                params=self.params,
                phase=self.phase,
                curve=tuple(self.curve),
                resumable=True,
                held_back=self.held_back,
                fresh=self.turn > 1 and len(self.curve) == self.heard,
            )
        return self.seen


class GrusSide:
    """The very `decide` of the product, with a pool that does at once what it orders."""

    def __init__(self, task: Task, sweep: Sweep, gpus: int, chance: int) -> None:
        self._task, self._sweep, self._gpus, self._chance = task, sweep, gpus, chance
        self._trials: list[Held] = []
        self._events: list[tuple[float, int, int, int]] = []
        self._order = itertools.count()
        self._now, self._busy = 0.0, 0.0
        self._over: Finish | None = None
        self._rungs = frozenset(rungs(sweep.stopping))
        self._target = -np.inf if sweep.budget.target is None else sweep.budget.target

    def run(self) -> Outcome:
        while self._now < LIMIT:
            views = [one.view() for one in self._trials]
            for order in decide(self._sweep, views, self._room(), 0.0, self._now):
                self._obey(order)
            if self._over is not None:
                break
            self._place()
            while not self._advance():
                pass
        for one in self._trials:
            self._leave(one, Phase.STOPPED)
        share = self._busy / (self._now * self._gpus)
        return Outcome(self._over is not None, self._now, self._busy, len(self._trials), share)

    def _count(self, phase: Phase) -> int:
        return sum(one.phase is phase for one in self._trials)

    def _room(self) -> Room:
        free = self._gpus - self._count(Phase.RUNNING)
        return Room(slots=max(0, free - self._count(Phase.PENDING)))

    def _obey(self, order: Order) -> None:
        match order:
            case Start(number, params):
                self._trials.append(Held(number, params, self._task.start(params, self._chance)))
            case Pause(number):
                self._leave(self._trials[number], Phase.PAUSED)
                self._trials[number].held_back = True
            case Resume(number):
                one = self._trials[number]
                one.phase, one.held_back, one.seen = Phase.PENDING, False, None
            case Stop(number):
                self._leave(self._trials[number], Phase.STOPPED)
            case Finish():
                self._over = order

    def _place(self) -> None:
        """Those that wait take what is free, in the order of their numbers."""
        free = self._gpus - self._count(Phase.RUNNING)
        for one in [one for one in self._trials if one.phase is Phase.PENDING][:free]:
            one.phase, one.since, one.heard = Phase.RUNNING, self._now, len(one.curve)
            one.turn += 1
            one.seen = None
            self._expect(one, BOOT)

    def _leave(self, one: Held, phase: Phase) -> None:
        if one.phase is Phase.RUNNING:
            self._busy += self._now - one.since
        one.phase = phase
        one.turn += 1
        one.seen = None

    def _expect(self, one: Held, boot: float = 0.0) -> None:
        heapq.heappush(self._events, (self._now + boot + 1.0, next(self._order), one.number, one.turn))

    def _advance(self) -> bool:
        """To the next report; whether it is one that is heard: at a rung, at the end, or with the target."""
        while True:
            self._now, _, number, turn = heapq.heappop(self._events)
            one = self._trials[number]
            if one.turn == turn:
                break
        one.curve.append((len(one.curve) + 1.0, next(one.run)))
        one.seen = None
        if len(one.curve) >= self._task.epochs:
            self._leave(one, Phase.SUCCEEDED)
        else:
            self._expect(one)
        step, value = one.curve[-1]
        return step in self._rungs or one.phase is Phase.SUCCEEDED or value <= self._target


class OptunaSide:
    """Optuna as it is meant to be used: ask, report, prune where it says so, tell; TPE with its defaults."""

    def __init__(self, task: Task, pruner: "BasePruner", gpus: int, chance: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._task, self._gpus, self._chance = task, gpus, chance
        self._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=chance), pruner=pruner)
        self._space = {axis.name: distribution(axis) for axis in task.axes}
        self._events: list[tuple[float, int, Trial, Iterator[float]]] = []
        self._order = itertools.count()

    def run(self, target: float, limit: float = LIMIT) -> Outcome:
        from optuna.trial import TrialState

        for _ in range(self._gpus):
            self._begin(0.0)
        steps = dict[int, int]()
        now = 0.0
        while now < limit:
            now, _, trial, run = heapq.heappop(self._events)
            step = steps[trial.number] = steps.get(trial.number, 0) + 1
            value = next(run)
            if value <= target:
                return Outcome(True, now, now * self._gpus, trial.number + 1)
            trial.report(value, step)
            if step >= self._task.epochs:
                self._study.tell(trial, value)
            elif trial.should_prune():
                self._study.tell(trial, state=TrialState.PRUNED)
            else:
                heapq.heappush(self._events, (now + 1.0, next(self._order), trial, run))
                continue
            self._begin(now)
        return Outcome(False, now, now * self._gpus, len(steps))

    def _begin(self, now: float) -> None:
        trial = self._study.ask(self._space)
        run = self._task.start(tuple(trial.params.items()), self._chance)
        heapq.heappush(self._events, (now + BOOT + 1.0, next(self._order), trial, run))


def by_chance(curves: Floats, target: float, gpus: int, chance: int) -> Outcome:
    """Whole trainings of parameters by chance, from those that were measured, none twice."""
    order = np.random.default_rng([chance, 7]).permutation(len(curves))
    whole = BOOT + curves.shape[1]
    first, used = np.inf, len(order)
    for place, number in enumerate(order):
        began = (place // gpus) * whole
        if began >= first:
            used = place
            break
        hits = np.flatnonzero(curves[number] <= target)
        if len(hits):
            first = min(first, began + BOOT + float(hits[0]) + 1.0)
    time = min(first, -(-len(order) // gpus) * whole)
    return Outcome(bool(np.isfinite(first)), time, time * gpus, used)
