"""Content of the page of a sweep: its progress, the best so far, and a line per trial. Pure."""

from dataclasses import dataclass

from grus.controlplane.jobs import user_actions
from grus.dashboard.views import sweep_charts
from grus.dashboard.views.job_charts import Figure
from grus.dashboard.views.job_detail import BADGES, buttons, sentence
from grus.dashboard.views.parallel_coordinates import parallel
from grus.dashboard.views.sweep_search_data import SweepSnapshot, TrialRow, params_words, value_words
from grus.model.interfaces import User
from grus.model.jobs import TERMINAL, Desired, Job, Phase
from grus.model.sweep_search import Axis, Goal, Rule, Value
from grus.model.texts.formatting import number, span
from grus.model.texts.job_text import status_word

HOUR = 3600.0
LEAST = 0.001
"""GPU-hours below which the number itself says nothing."""
RULES = {
    Rule.AUTO: "those whose curves promise little are held back or ended",
    Rule.NONE: "none is ended early",
    Rule.MEDIAN: "those below the median of the others are ended",
    Rule.ASHA: "by successive halving (ASHA)",
    Rule.HYPERBAND: "by successive halving in several brackets (Hyperband)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPageData:
    """All that the page of a sweep is made of."""

    job: Job
    user: User
    now: float
    search: SweepSnapshot


def charts(search: SweepSnapshot) -> dict[str, Figure]:
    """All of them by name."""
    return {
        "history": sweep_charts.history(search),
        "parallel": parallel(search),
        "importance": sweep_charts.importance(search),
        "curves": sweep_charts.curves(search),
    }


def columns(search: SweepSnapshot) -> list[str]:
    """The parameters that have a column each."""
    return [axis.name for axis in search.sweep.axes]


def parts(seen: SweepPageData) -> dict[str, dict[str, object]]:
    """Return the parts that may change while somebody looks, except the trials."""
    return {
        "texts": texts(seen),
        "buttons": dict(buttons(seen.job, seen.user, seen.now)),
        "best": best(seen.search),
    }


def texts(seen: SweepPageData) -> dict[str, object]:
    job, search = seen.job, seen.search
    status = status_word(job)
    spent = sum(one.gpu_seconds for one in search.trials)
    budget = search.sweep.budget
    lasted = (job.ended_at or seen.now) - (job.first_started_at or job.submitted_at)
    return {
        "status": status,
        "badge": BADGES[job.phase],
        "why": sentence(job.reason or f"it is {status}"),
        "ended": "yes" if job.terminal else "",
        "paused": "yes" if job.desired is Desired.PAUSE else "",
        "loses": user_actions.loss_words(job),
        "trials": str(len(search.trials)),
        "trials_of": _of(budget.trials, "in all"),
        "states": _states(search),
        "hours": amount(spent / HOUR),
        "hours_of": _of(
            None if budget.gpu_seconds is None else amount(budget.gpu_seconds / HOUR), "GPU-hours"
        ),
        "gpus": number(sum(one.gpus for one in search.trials)),
        "lasted": span(lasted),
        "lasted_of": "since it began" if budget.seconds is None else f"of {span(budget.seconds)}",
    }


def amount(hours: float) -> str:
    """GPU-hours with as many digits as say something."""
    if 0 < hours < LEAST:
        return f"< {LEAST:g}"
    return f"{hours:.3g}" if hours < 100 else f"{hours:.0f}"


def _of(most: int | str | None, words: str) -> str:
    return words if most is None else f"of {most} {words}"


def _states(search: SweepSnapshot) -> str:
    """Count the trials in each state."""
    counts = {
        "running": sum(
            one.phase in (Phase.STARTING, Phase.RUNNING) and not one.held_back for one in search.trials
        ),
        "pending": sum(one.phase is Phase.PENDING for one in search.trials),
        "held back": sum(one.held_back for one in search.trials),
        "paused": sum(
            one.phase in (Phase.PAUSING, Phase.PAUSED) and not one.held_back for one in search.trials
        ),
        "ended": sum(one.phase in TERMINAL for one in search.trials),
    }
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "none yet"


def best(search: SweepSnapshot) -> dict[str, object]:
    """The winner so far, in words; empty fields before there is one."""
    found, target = search.winner, search.sweep.budget.target
    goal = "lowest" if search.sweep.goal is Goal.MINIMIZE else "highest"
    label = f"{goal} {search.sweep.metric}" + ("" if target is None else f"; target {value_words(target)}")
    if found is None:
        return {"value": "–", "label": label, "number": None, "job": "", "params": []}
    return {
        "value": value_words(found.value),
        "label": label,
        "number": found.number,
        "job": found.job,
        "params": [[name, value_words(value)] for name, value in found.params],
    }


def row(trial: TrialRow, search: SweepSnapshot) -> dict[str, object]:
    """A line of the table; figures stand beside their words, to sort by."""
    status = "held back" if trial.held_back else trial.phase.value
    return {
        "number": trial.number,
        "job": trial.job,
        "state": BADGES[trial.phase],
        "status": status,
        "best": trial.number == search.best,
        "value": trial.value,
        "value_words": value_words(trial.value),
        "reached": trial.reached,
        "reached_words": "–" if trial.reached is None else number(trial.reached),
        "hours": round(trial.gpu_seconds / HOUR, 6),
        "hours_words": amount(trial.gpu_seconds / HOUR),
        "gpus": number(trial.gpus) if trial.gpus else "",
        "ran": "–" if trial.seconds is None else span(trial.seconds),
        "params": [_cell(axis, trial.param(axis.name)) for axis in search.sweep.axes],
        "why": trial.why,
    }


def _cell(axis: Axis, value: Value | None) -> list[object]:
    """Return a parameter's sort key, and its words. Choices are in the order of the job file."""
    if axis.choices and value in axis.choices:
        return [axis.choices.index(value), value_words(value)]
    return [value, value_words(value)]


def about(job: Job, search: SweepSnapshot) -> dict[str, str]:
    """Return the facts that never change."""
    sweep, stopping = search.sweep, search.sweep.stopping
    return {
        "id": job.id,
        "name": job.spec.name,
        "user": job.user,
        "queue": job.spec.queue,
        "metric": sweep.metric,
        "goal": sweep.goal.value,
        "sampler": f"{sweep.sampler}, seed {sweep.seed}",
        "stopping": RULES[stopping.rule]
        + ("" if stopping.rule in (Rule.NONE, Rule.MEDIAN) else f", compared by {stopping.by}"),
        "parallel": "as many as there is room for" if sweep.parallel is None else str(sweep.parallel),
        "grow": sweep.grow,
        "space": "\n".join(_axis(axis) for axis in sweep.axes),
        "template": params_words(job.spec.params),
    }


def _axis(axis: Axis) -> str:
    if axis.choices:
        return f"{axis.name}: {', '.join(value_words(choice) for choice in axis.choices)}"
    kind = (", by orders of magnitude" if axis.log else "") + (", whole" if axis.whole else "")
    step = "" if axis.step is None else f", in steps of {axis.step:g}"
    return f"{axis.name}: {axis.low:g} to {axis.high:g}{kind}{step}"
