"""When a search has been enough, and which of its trials can come to nothing."""

import math
from collections.abc import Sequence

from grus.model.jobs import Phase
from grus.model.sweeps import Goal, Sweep
from grus.tuning import sampling
from grus.tuning.orders import Finish, Stop
from grus.tuning.trials import TrialView, best_trial, best_value

HOPELESS = 5
"""So many trials have ended, and nobody has ever reported the metric: the next ones will not either. Those
that diverged have reported it: they speak against their parameters, not against the program."""


def finished(
    sweep: Sweep, trials: Sequence[TrialView], seconds: float, *, rest: bool = True
) -> Finish | None:
    """Whether it has been enough, and why. With `rest` nobody who was held back deserves to go on."""
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
        return _enough(sweep, trials, f"{ended} trials have ended")
    if no_more(sweep, trials) and _all_done(sweep, trials, rest=rest):
        return _enough(sweep, trials, f"all {len(trials)} trials have ended or were left behind")
    return None


def _enough(sweep: Sweep, trials: Sequence[TrialView], why: str) -> Finish:
    """The end; where there is nothing to choose from, also what became of the trials."""
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
    """Whether nobody is on the way; those that are held back have lost once another went to its end."""
    if not all(trial.ended or trial.held_back for trial in trials):
        return False
    held = [trial for trial in trials if trial.held_back and not trial.ended]
    return not held or (rest and any(complete(sweep, trial) for trial in trials))


def complete(sweep: Sweep, trial: TrialView) -> bool:
    """Whether it went to its end."""
    most = sweep.stopping.most
    return trial.phase is Phase.SUCCEEDED or (trial.ended and most is not None and trial.reached >= most)


def _as_good(value: float, target: float, goal: Goal) -> bool:
    return value <= target if goal is Goal.MINIMIZE else value >= target


def no_more(sweep: Sweep, trials: Sequence[TrialView]) -> bool:
    """Whether no trial is to be made any more."""
    most = math.inf if sweep.budget.trials is None else sweep.budget.trials
    if sweep.sampler == "grid":
        most = min(sampling.grid_size(sweep), most)
    return len(trials) >= most


def failing(sweep: Sweep, trials: Sequence[TrialView]) -> list[Stop]:
    """Trials that are ended whatever the others do."""
    found = []
    for trial in trials:
        if not trial.ended and (why := _why(sweep, trial)):
            found.append(Stop(trial.number, why))
    return found


def _why(sweep: Sweep, trial: TrialView) -> str:
    stopping, most = sweep.stopping, sweep.budget.trial_gpu_seconds
    if trial.diverged:
        return f"{sweep.metric} is no number any more: it has diverged"
    # One that is just there may be about to leave something behind and to end by itself.
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
