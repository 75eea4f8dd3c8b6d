"""Early stopping: find trials with little chance of a good result. A family of rules, each a function of all
trials' curves.

A rule names trials that should not continue (`out`) and trials that were held back and should now continue
(`ahead`, best first). It does not decide what becomes of those that are out: one that can resume is held back
at its rung, another is ended.
"""

import math
import statistics
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from grus.model.sweep_search import Goal, Rule, Sweep
from grus.tuning.ranking import Ranks, ranks
from grus.tuning.rungs import Ladder, first_rung, ladder, rungs
from grus.tuning.sweep_trials import TrialView

ON_THE_WAY = 2.0
"""Tolerance for trials between two rungs, which were good enough once: such a trial may fall this many times
as far back as one that has just arrived. A pause costs a start, and newcomers are many.
"""
BELIEVED = 3.0
MEDIAN_OF = 5
"""Fewest trials for a median; a median of fewer is not meaningful."""


@dataclass(frozen=True, slots=True)
class StoppingDecision:
    out: Mapping[int, str]
    """Running trials that should not continue, by number, with the reasons."""
    ahead: tuple[int, ...] = ()
    for_good: bool = False
    """True if those that are out have lost even if they could resume."""


NOBODY = StoppingDecision({})


def verdict(sweep: Sweep, trials: Sequence[TrialView]) -> StoppingDecision:
    return RULES[sweep.stopping.rule](sweep, trials)


def none(sweep: Sweep, trials: Sequence[TrialView]) -> StoppingDecision:
    """Let every trial complete."""
    del sweep, trials
    return NOBODY


def auto(sweep: Sweep, trials: Sequence[TrialView]) -> StoppingDecision:
    """Apply ASHA, trusting a rung as far as it has predicted the next one: if early values are chance, nearly
    all trials pass, and no good trial is lost by it.
    """
    steps = ladder(sweep, trials)
    return _climb(sweep, trials, steps, lowest=0, trust=lambda rung: foretold(steps, rung))


def asha(sweep: Sweep, trials: Sequence[TrialView]) -> StoppingDecision:
    """Asynchronous successive halving (Li et al. 2020, arXiv 1810.05934): at every rung the best of `factor`
    continue, of all that ever got there. No trial waits for others to arrive.
    """
    return _climb(sweep, trials, ladder(sweep, trials), lowest=0)


def hyperband(sweep: Sweep, trials: Sequence[TrialView]) -> StoppingDecision:
    """Apply ASHA in brackets (Li et al. 2018, JMLR 18): bracket b is compared from rung b on, among itself.
    It need not be known whether early values mean anything.
    """
    out: dict[int, str] = {}
    ahead: list[int] = []
    for lowest in range(len(rungs(sweep.stopping)) + 1):
        own = [trial for trial in trials if bracket(sweep, trial.number) == lowest]
        found = _climb(sweep, own, ladder(sweep, own), lowest)
        out |= found.out
        ahead += found.ahead
    return StoppingDecision(out, tuple(ahead))


def bracket(sweep: Sweep, number: int) -> int:
    """Return the bracket of a trial: random, with a frequency such that every bracket takes about as much in
    all.
    """
    brackets = len(rungs(sweep.stopping)) + 1
    often = np.array(
        [sweep.stopping.factor ** (brackets - 1 - one) / (brackets - one) for one in range(brackets)]
    )
    chance = np.random.default_rng([sweep.seed, number, brackets])
    return int(chance.choice(brackets, p=often / often.sum()))


def median(sweep: Sweep, trials: Sequence[TrialView]) -> StoppingDecision:
    """Apply the median rule: a trial whose best is worse than the median of the others' averages up to the
    same resource has lost (Golovin et al. 2017, KDD).
    """
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
    return StoppingDecision(out, for_good=True)


def _mean_up_to(trial: TrialView, resource: float, sign: float) -> float | None:
    """Return the mean of all its values up to there; None if it did not get there."""
    if trial.reached < resource:
        return None
    count = bisect_right(trial.curve, resource, key=lambda report: report[0])
    mean = statistics.fmean(sign * value for _, value in trial.curve[: max(count, 1)])
    return mean if math.isfinite(mean) else math.inf


def foretold(steps: Ladder, rung: int) -> float:
    """Return how well ranks at the rung predicted those at the next one, from 0 (not at all) to 1.

    The rank correlation of the trials that were at both, corrected to all trials of the rung, and weighed
    against `BELIEVED` trials of full correlation.
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
    """Correct a correlation among the chosen trials to one among all: those that continued are much alike,
    and a measure that shows little among them may show much among all (Thorndike's correction for
    restriction of range).
    """
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
) -> StoppingDecision:
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
    return StoppingDecision(out, tuple(number for *_, number in sorted(ahead)))


def _allowed(trial: TrialView, rung: float, there: int, part: float) -> int:
    """Return how many of a rung's trials may be beyond it when this trial is compared."""
    passing = int(there * part + 1e-9)
    if not trial.resumable:
        passing = max(passing, 1)  # The first to arrive is not ended because others are missing.
    arrived = len(trial.curve) < 2 or trial.curve[-2][0] < rung
    return passing if arrived and not trial.fresh else max(passing, math.ceil(ON_THE_WAY * there * part))


RULES: Mapping[Rule, Callable[[Sweep, Sequence[TrialView]], StoppingDecision]] = {
    Rule.AUTO: auto,
    Rule.NONE: none,
    Rule.MEDIAN: median,
    Rule.ASHA: asha,
    Rule.HYPERBAND: hyperband,
}
