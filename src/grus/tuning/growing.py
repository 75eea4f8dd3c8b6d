"""Which trials deserve more GPUs: explored on little, the best are finished on what `grow` says.

A trial that has passed the last rung before its end is one of the few that got so far, and most of its work
is still to come: there more GPUs save most time. When no trial is to be made any more, what would idle goes
to those that run.
"""

from collections.abc import Sequence

from grus.model.sweeps import Sweep
from grus.tuning.ending import no_more
from grus.tuning.orders import Scale
from grus.tuning.rungs import ladder, rungs
from grus.tuning.trials import TrialView


def growing(sweep: Sweep, trials: Sequence[TrialView], leaving: set[int]) -> list[Scale]:
    """Those that may grow from now on. Who has grown keeps it: a pause to shrink would cost more."""
    if not sweep.grow:
        return []
    steps = ladder(sweep, trials)
    last = len(rungs(sweep.stopping)) - 1
    everybody = no_more(sweep, trials) and not any(trial.waiting for trial in trials)
    return [
        Scale(trial.number, sweep.grow)
        for trial in trials
        if trial.running
        and not trial.grown
        and trial.number not in leaving
        and (everybody or (sweep.stopping.most is not None and 0 <= last <= steps.place(trial.number)))
    ]
