"""Search decision: choose the trials to create, hold back, resume and end. Read `decide` first.

Pure: the same records give the same orders. Orders that were carried out show in the next records; lost
orders are given again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from grus.model.jobs import Phase
from grus.model.sweep_search import Sweep
from grus.tuning.asha_early_stopping import StoppingDecision, verdict
from grus.tuning.gpu_growth import growing
from grus.tuning.orders import Order, Pause, Resume, Start, Stop
from grus.tuning.rungs import ladder
from grus.tuning.samplers import SAMPLERS
from grus.tuning.stopping_criteria import complete, failing, finished, no_more
from grus.tuning.sweep_trials import TrialView

SPARE = 1
"""Trials that wait in the line although nothing is free, so that released GPUs are used at once."""
MOST_WAITING = 64
"""Maximum number of trials put into the line at a time, regardless of the free GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Resources that the pool would give this search now."""

    slots: int
    """Trials of the template's size that could start at once; those already in line are not counted."""
    gpus: int = 0
    """Whole GPUs that are free, for trials that may grow."""


def decide(
    sweep: Sweep, trials: Sequence[TrialView], room: Room, since: float, now: float
) -> tuple[Order, ...]:
    """Return the next orders. `since` is when the search started."""
    judged = verdict(sweep, trials)
    over = finished(sweep, trials, now - since, rest=not judged.ahead)
    if over is not None:  # 1. is the search over?
        return (over,)
    stops = failing(sweep, trials)  # 2. failing trials
    last = champion(sweep, trials)
    spared = {stop.number for stop in stops} | {last}
    outs = _outs(trials, judged, spared)  # 3. early stopping
    left = len(stops) + len(outs)
    places = _places(sweep, trials, room, left)  # 4. give released and free GPUs to the next trials
    resumes = _resumes(trials, judged, last, places)
    starts = _starts(sweep, trials, places - len(resumes))
    scales = growing(sweep, trials, {order.number for order in (*stops, *outs)})  # 5. more GPUs for the best
    return (*stops, *outs, *resumes, *starts, *scales)


def _outs(
    trials: Sequence[TrialView], judged: StoppingDecision, spared: set[int | None]
) -> list[Pause | Stop]:
    orders: list[Pause | Stop] = []
    for trial in trials:
        why = judged.out.get(trial.number)
        if why is None or trial.number in spared:
            continue
        held = trial.resumable and not judged.for_good
        orders.append(Pause(trial.number, why) if held else Stop(trial.number, why))
    return orders


def _places(sweep: Sweep, trials: Sequence[TrialView], room: Room, left: int) -> int:
    """Return how many trials to put into the line now."""
    waiting = sum(trial.waiting for trial in trials)
    wanted = min(max(room.slots + left + waiting, SPARE), MOST_WAITING) - waiting
    if sweep.parallel is not None:
        alive = sum(not trial.ended and not trial.held_back for trial in trials)
        wanted = min(wanted, sweep.parallel - alive + left)
    return max(wanted, 0)


def _resumes(
    trials: Sequence[TrialView], judged: StoppingDecision, last: int | None, places: int
) -> list[Order]:
    ready = {trial.number for trial in trials if trial.held_back and trial.phase is Phase.PAUSED}
    ahead = [number for number in judged.ahead if number in ready][:places]
    if ahead:
        return [Resume(number, "among the best of those that came as far") for number in ahead]
    if last in ready and last is not None and places:
        return [Resume(last, "the best of those that are left")]
    return []


def champion(sweep: Sweep, trials: Sequence[TrialView]) -> int | None:
    """Return the trial that runs to completion although too few came as far to be one of the best: the best
    of the highest rung, when no further trial will be created and none has completed; None before.
    """
    if not no_more(sweep, trials) or any(complete(sweep, trial) for trial in trials):
        return None
    steps = ladder(sweep, [trial for trial in trials if not trial.ended])
    known = [number for number, values in steps.values.items() if values]
    return min(known, key=lambda one: (-steps.place(one), steps.values[one][-1], one), default=None)


def _starts(sweep: Sweep, trials: Sequence[TrialView], places: int) -> list[Order]:
    known = list(trials)
    orders: list[Order] = []
    for _ in range(places):
        if no_more(sweep, known):
            break
        number = len(known)
        params = SAMPLERS[sweep.sampler](sweep, known, number)
        known.append(TrialView(number=number, params=params, phase=Phase.PENDING))
        orders.append(Start(number, params))
    return orders
