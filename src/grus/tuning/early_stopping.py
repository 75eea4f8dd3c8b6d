"""Which trials promise too little: a family of rules, each a function of all trials' curves.

A rule names trials that should not go on (`out`) and trials that were held back and now deserve to (`ahead`,
best first). What becomes of those that are out is not its business: one that can resume is held back at its
rung, another is ended.
"""

import math
import statistics
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from grus.model.sweeps import Goal, Rule, Sweep
from grus.tuning.ranking import Ranks, ranks
from grus.tuning.rungs import Ladder, first_rung, ladder, rungs
from grus.tuning.trials import TrialView

ON_THE_WAY = 2.0
"""A trial between two rungs was good enough once. It may fall so many times as far back as one that has just
arrived: a pause costs a start, and newcomers are many."""
BELIEVED = 3.0
MEDIAN_OF = 5
"""A median of fewer trials is no judge."""


@dataclass(frozen=True, slots=True)
class Verdict:
    out: Mapping[int, str]
    """Trials that run and should not, by number, and why."""
    ahead: tuple[int, ...] = ()
    for_good: bool = False
    """Whether those that are out have lost even where they could resume."""


NOBODY = Verdict({})


def verdict(sweep: Sweep, trials: Sequence[TrialView]) -> Verdict:
    return RULES[sweep.stopping.rule](sweep, trials)


def none(sweep: Sweep, trials: Sequence[TrialView]) -> Verdict:
    """Everybody goes to the end."""
    del sweep, trials
    return NOBODY


def auto(sweep: Sweep, trials: Sequence[TrialView]) -> Verdict:
    """ASHA that believes a rung as far as it has foretold the next one: where early values are chance, nearly
    everybody passes, and nothing good is thrown away by it."""
    steps = ladder(sweep, trials)
    return _climb(sweep, trials, steps, lowest=0, trust=lambda rung: foretold(steps, rung))


def asha(sweep: Sweep, trials: Sequence[TrialView]) -> Verdict:
    """Asynchronous successive halving (Li et al. 2020, arXiv 1810.05934): at every rung the best of `factor`
    go on, of all that ever got there. Nobody waits for others to arrive."""
    return _climb(sweep, trials, ladder(sweep, trials), lowest=0)


def hyperband(sweep: Sweep, trials: Sequence[TrialView]) -> Verdict:
    """ASHA in brackets (Li et al. 2018, JMLR 18): bracket b is compared from rung b on, among itself. Whether
    early values mean anything need not be known."""
    out: dict[int, str] = {}
    ahead: list[int] = []
    for lowest in range(len(rungs(sweep.stopping)) + 1):
        own = [trial for trial in trials if bracket(sweep, trial.number) == lowest]
        found = _climb(sweep, own, ladder(sweep, own), lowest)
        out |= found.out
        ahead += found.ahead
    return Verdict(out, tuple(ahead))


def bracket(sweep: Sweep, number: int) -> int:
    """The bracket of a trial: by chance, so often that every bracket takes about as much in all."""
    brackets = len(rungs(sweep.stopping)) + 1
    often = np.array(
        [sweep.stopping.factor ** (brackets - 1 - one) / (brackets - one) for one in range(brackets)]
    )
    chance = np.random.default_rng([sweep.seed, number, brackets])
    return int(chance.choice(brackets, p=often / often.sum()))


def median(sweep: Sweep, trials: Sequence[TrialView]) -> Verdict:
    """A trial whose best is worse than the median of the others' averages up to the same resource has lost
    (Golovin et al. 2017, KDD)."""
    sign = 1.0 if sweep.goal is Goal.MINIMIZE else -1.0
    out = {}
    for trial in trials:
        if not trial.running or trial.reached < first_rung(sweep.stopping):
            continue
        others = [_mean_up_to(one, trial.reached, sign) for one in trials if one.number != trial.number]
        known = [mean for mean in others if mean is not None]
        own = min((sign * value for _, value in trial.curve if math.isfinite(value)), default=math.inf)
        if len(known) >= MEDIAN_OF and own > (middle := statistics.median(known)):
            out[trial.number] = (
                f"at {sweep.stopping.by} {trial.reached:g} its best {sign * own:g} was worse than "
                f"the median {sign * middle:g} of {len(known)} others"
            )
    return Verdict(out, for_good=True)


def _mean_up_to(trial: TrialView, resource: float, sign: float) -> float | None:
    """Of all its values until there; None if it did not get there."""
    if trial.reached < resource:
        return None
    count = bisect_right(trial.curve, resource, key=lambda report: report[0])
    mean = statistics.fmean(sign * value for _, value in trial.curve[: max(count, 1)])
    return mean if math.isfinite(mean) else math.inf


def foretold(steps: Ladder, rung: int) -> float:
    """How well ranks at the rung have foretold those at the next one, from 0 (not at all) to 1.

    The rank correlation of those that were at both, as it would be among all of the rung, with `BELIEVED`
    trials' weight of full belief.
    """
    known = [got for got in steps.values.values() if len(got) > rung]
    here = ranks([got[rung] for got in known])
    both = [place for place, got in enumerate(known) if len(got) > rung + 1]
    if len(both) < 3:
        return 1.0
    there = ranks([known[place][rung + 1] for place in both])
    seen = _among_all(_correlation(ranks(here[both]), there), here, here[both])
    return max(0.0, (len(both) * seen + BELIEVED) / (len(both) + BELIEVED))


def _correlation(some: Ranks, others: Ranks) -> float:
    spread = float(np.std(some) * np.std(others))
    if spread == 0.0:
        return 0.0
    return min(float(np.mean((some - some.mean()) * (others - others.mean()))) / spread, 1.0)  # rounding


def _among_all(seen: float, ranks: Ranks, chosen: Ranks) -> float:
    """A correlation among the chosen as it would be among all: those that went on are much alike, and what
    tells little among them may tell much among all (Thorndike's correction for restriction of range)."""
    alike = float(np.std(chosen) / np.std(ranks)) if seen > 0.0 else 1.0
    if not 0.0 < alike < 1.0:
        return seen
    return seen / math.hypot(seen, alike * math.sqrt(1.0 - seen**2))


def _climb(
    sweep: Sweep,
    trials: Sequence[TrialView],
    steps: Ladder,
    lowest: int,
    trust: Callable[[int], float] = lambda _: 1.0,
) -> Verdict:
    out = {}
    ahead: list[tuple[int, float, int]] = []
    for rung in range(lowest, len(rungs(sweep.stopping))):
        there = steps.at(rung)
        ranks = {number: rank for rank, (_, number) in enumerate(there)}
        part = sweep.stopping.factor ** -trust(rung)
        passing = int(len(there) * part + 1e-9)
        for trial in trials:
            if trial.ended or steps.place(trial.number) != rung:
                continue
            rank = ranks[trial.number]
            if trial.held_back and rank < passing:
                ahead.append((-rung, there[rank][0], trial.number))
            elif trial.running and rank >= _allowed(trial, steps.resources[rung], len(there), part):
                where = f"at {sweep.stopping.by} {steps.resources[rung]:g}"
                place = f"it was number {rank + 1} of {len(there)}"
                out[trial.number] = f"{where} {place}; one of {sweep.stopping.factor} goes on"
    return Verdict(out, tuple(number for *_, number in sorted(ahead)))


def _allowed(trial: TrialView, rung: float, there: int, part: float) -> int:
    """How many of a rung's trials may be beyond it, as this one is judged."""
    passing = int(there * part + 1e-9)
    if not trial.resumable:
        passing = max(passing, 1)  # The first to arrive is not ended for want of others.
    arrived = len(trial.curve) < 2 or trial.curve[-2][0] < rung
    return passing if arrived and not trial.fresh else max(passing, math.ceil(ON_THE_WAY * there * part))


RULES: Mapping[Rule, Callable[[Sweep, Sequence[TrialView]], Verdict]] = {
    Rule.AUTO: auto,
    Rule.NONE: none,
    Rule.MEDIAN: median,
    Rule.ASHA: asha,
    Rule.HYPERBAND: hyperband,
}
