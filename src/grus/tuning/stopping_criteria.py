"""End of a search: decide when a search is over, and which of its trials cannot succeed."""

import math
from collections.abc import Sequence

from grus.model.jobs import Phase
from grus.model.sweep_search import Goal, Sweep
from grus.model.texts.plural_words import counted
from grus.tuning import random_grid_sampling
from grus.tuning.orders import Finish, Stop
from grus.tuning.sweep_trials import TrialView, best_trial, best_value

HOPELESS = 5
"""Number of ended trials without any report of the metric after which the search gives up: the next ones will
not report it either. Diverged trials have reported it: they are evidence against their parameters, not
against the program.
"""


def finished(
    sweep: Sweep, trials: Sequence[TrialView], seconds: float, *, rest: bool = True
) -> Finish | None:
    """Return the end of the search, or None. With `rest` no held-back trial deserves to continue."""
    budget = sweep.budget
    best = best_trial(trials, sweep.goal)
    value = None if best is None else best_value(best, sweep.goal)
    if value is not None and budget.target is not None and _as_good(value, budget.target, sweep.goal):
        return Finish(f"{sweep.metric} reached {value:g}, the target is {budget.target:g}")
    if budget.seconds is not None and seconds >= budget.seconds:
        return _enough(sweep, trials, f"its time of {budget.seconds:g} s is over")
    if budget.gpu_seconds is not None and sum(one.gpu_seconds for one in trials) >= budget.gpu_seconds:
        return _enough(sweep, trials, f"its {budget.gpu_seconds / 3600:g} GPU-hours are used up")
    ended = sum(trial.ended for trial in trials)
    if ended >= HOPELESS and not any(trial.curve for trial in trials):
        return _enough(sweep, trials, f"{counted(ended, 'trial')} ended")
    if no_more(sweep, trials) and _all_done(sweep, trials, rest=rest):
        return _enough(sweep, trials, f"all {len(trials)} trials have ended or were left behind")
    return None


def _enough(sweep: Sweep, trials: Sequence[TrialView], why: str) -> Finish:
    """Return the end; without any value to choose from, also the outcome of the trials."""
    if best_trial(trials, sweep.goal) is not None:
        return Finish(why)
    diverged = sum(trial.diverged for trial in trials)
    failed = sum(trial.phase is Phase.FAILED for trial in trials)
    if diverged:
        return Finish(f"{why}, and {sweep.metric} was never a number: {diverged} diverged", good=False)
    lack = f"{why}, and none has reported {sweep.metric}"
    if failed:
        return Finish(f"{lack}: {failed} failed, `grus logs` of one says why", good=False)
    return Finish(f"{lack}: is it in `grus.report(...)`?", good=False)


def _all_done(sweep: Sweep, trials: Sequence[TrialView], *, rest: bool) -> bool:
    """Return whether no trial is under way; those that are held back have lost once another has completed."""
    if not all(trial.ended or trial.held_back for trial in trials):
        return False
    held = [trial for trial in trials if trial.held_back and not trial.ended]
    return not held or (rest and any(complete(sweep, trial) for trial in trials))


def complete(sweep: Sweep, trial: TrialView) -> bool:
    """Return whether it has completed."""
    most = sweep.stopping.most
    return trial.phase is Phase.SUCCEEDED or (trial.ended and most is not None and trial.reached >= most)


def _as_good(value: float, target: float, goal: Goal) -> bool:
    return value <= target if goal is Goal.MINIMIZE else value >= target


def no_more(sweep: Sweep, trials: Sequence[TrialView]) -> bool:
    """Return whether no further trial will be created."""
    most = math.inf if sweep.budget.trials is None else sweep.budget.trials
    if sweep.sampler == "grid":
        most = min(random_grid_sampling.grid_size(sweep), most)
    return len(trials) >= most


def failing(sweep: Sweep, trials: Sequence[TrialView]) -> list[Stop]:
    """Return trials that are ended regardless of the others."""
    found = []
    for trial in trials:
        if not trial.ended and (why := _why(sweep, trial)):
            found.append(Stop(trial.number, why))
    return found


def _why(sweep: Sweep, trial: TrialView) -> str:
    stopping, most = sweep.stopping, sweep.budget.trial_gpu_seconds
    if trial.diverged:
        return f"{sweep.metric} is no number any more: it has diverged"
    # A complete trial may be about to save its outputs and to end by itself.
    if trial.running and stopping.most is not None and trial.reached > stopping.most:
        return f"it is complete: {stopping.by} went beyond {stopping.most:g}"
    if most is not None and trial.gpu_seconds >= most:
        return f"it has taken its {most / 3600:g} GPU-hours"
    if sweep.patience is not None and not trial.curve and trial.seconds >= sweep.patience:
        return (
            f"in {trial.seconds:.0f} s it has never reported {sweep.metric}: "
            f"call grus.report({sweep.metric}=…), or raise patience"
        )
    return ""
