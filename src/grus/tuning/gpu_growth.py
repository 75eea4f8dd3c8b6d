"""Growing trials: give more GPUs to the best ones. Trials explore on few GPUs; the best finish on the size
set by `grow`.

A trial that has passed the last rung before its end is one of the few that got so far, and most of its work
is still to come: more GPUs save most time there. When no further trial will be created, GPUs that would idle
go to the running ones.
"""

from collections.abc import Sequence

from grus.model.sweep_search import Sweep
from grus.tuning.orders import ScaleTrial
from grus.tuning.rungs import ladder, rungs
from grus.tuning.stopping_criteria import no_more
from grus.tuning.sweep_trials import TrialView


def growing(sweep: Sweep, trials: Sequence[TrialView], leaving: set[int]) -> list[ScaleTrial]:
    """Return those that may grow from now on. A trial that has grown keeps its size: a pause to shrink would
    cost more.
    """
    if not sweep.grow:
        return []
    steps = ladder(sweep, trials)
    last = len(rungs(sweep.stopping)) - 1
    everybody = no_more(sweep, trials) and not any(trial.waiting for trial in trials)
    return [
        ScaleTrial(trial.number, sweep.grow)
        for trial in trials
        if trial.running
        and not trial.grown
        and trial.number not in leaving
        and (everybody or (sweep.stopping.most is not None and 0 <= last <= steps.place(trial.number)))
    ]
