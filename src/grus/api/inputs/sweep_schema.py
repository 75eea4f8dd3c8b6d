"""Sweep section (`sweep:`) of a job file: the search space, the metric, early stopping and the budget.

sweep:
  metric: loss
  space:
    lr: {log: [1e-5, 1e-1]}
    width: [64, 128]
  stopping: {most: 81}
  budget: {trials: 100, gpu_hours: 20}
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import BeforeValidator

from grus.api.inputs import search_space
from grus.api.inputs.argument_placeholders import argument_rules, values_of
from grus.api.parsing import fields as f
from grus.api.parsing.validation_errors import BrokenRule, Place, Strict, ValidFields, failure
from grus.model.sweep_search import Budget, Goal, Rule, Stopping, Sweep
from grus.model.texts.units import GpuAsk, parse_gpu, parse_seconds

MOST_POINTS = 100_000
"""Maximum number of points of a grid: its order is drawn as a whole."""
SAMPLERS = ("tpe", "gp", "random", "grid")
_SHORT = {
    **dict.fromkeys(("bayesian", "bayes", "tree"), "must be one of tpe, gp, random, grid; did you mean tpe?"),
    "gaussian": "must be one of tpe, gp, random, grid; did you mean gp?",
}
_RESOURCE = f.number(1e-9, 1e15)
_HOURS = f.optional(f.number(1e-9, 1e9))


class StoppingIn(Strict):
    """Early stopping of poor trials. A word alone is the rule."""

    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("type", "name", "pruner", "scheduler"), "rule"),
        **dict.fromkeys(("max", "max_t", "max_resource", "maximum", "epochs", "steps"), "most"),
        **dict.fromkeys(("min", "min_resource", "grace_period", "grace"), "first"),
        **dict.fromkeys(("eta", "reduction_factor"), "factor"),
        **dict.fromkeys(("resource", "time_attr", "attribute"), "by"),
    }

    rule: Annotated[str, f.judged(f.choice(tuple(Rule)))] = "auto"
    by: Annotated[str, f.judged(f.text(100))] = "step"
    """Reported progress metric of a trial."""
    first: Annotated[float | None, f.judged(f.optional(_RESOURCE))] = None
    """Progress at which trials are compared for the first time; a 27th of `most` if left out, at least 1."""
    most: Annotated[float | None, f.judged(f.optional(_RESOURCE))] = None
    """Progress at which a trial is complete."""
    factor: Annotated[int, f.judged(f.whole(2, 100))] = 3
    """Reduction factor: one of this many trials continues to the next rung, which is this many times
    as far.
    """

    def across(self, sound: ValidFields) -> list[BrokenRule]:
        sound_ends = sound("first") and sound("most")
        if self.most is not None and self.first is not None and sound_ends and self.most < self.first:
            rule = f"must be at least first, where trials are compared first ({self.first:g})"
            return [BrokenRule(("most",), rule, self.most)]
        if self.most is None and self.rule == "hyperband" and sound("rule") and sound("most"):
            return [BrokenRule(("most",), "is needed for hyperband: where a trial is complete, such as 81")]
        return []


class BudgetIn(Strict):
    """Limits of the search; the limit that is reached first ends it."""

    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("max_trials", "num_trials", "n_trials", "count", "samples"), "trials"),
        **dict.fromkeys(("gpus", "hours", "gpu", "gpuhours"), "gpu_hours"),
        **dict.fromkeys(("timeout", "seconds", "duration", "max_runtime"), "time"),
        **dict.fromkeys(("goal", "value", "stop_at"), "target"),
    }

    trials: Annotated[int | None, f.judged(f.optional(f.whole(1, 100_000)))] = None
    gpu_hours: Annotated[float | None, f.judged(_HOURS)] = None
    time: f.MaybeSeconds = None
    target: Annotated[float | None, f.judged(f.optional(f.number(-1e300, 1e300)))] = None
    """Target value of the metric that ends the search."""
    trial_gpu_hours: Annotated[float | None, f.judged(_HOURS)] = None
    """GPU-hour limit of one trial."""


def _word(value: Any) -> Any:
    return {"rule": value} if isinstance(value, str) else value


class SweepIn(Strict):
    """Search as a user writes it."""

    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("parameters", "params", "search_space", "hyperparameters"), "space"),
        **dict.fromkeys(("objective", "measure", "monitor"), "metric"),
        **dict.fromkeys(("direction", "mode"), "goal"),
        **dict.fromkeys(("method", "algorithm", "search"), "sampler"),
        **dict.fromkeys(("pruner", "early_stopping", "early_terminate", "scheduler", "stop"), "stopping"),
        **dict.fromkeys(("max_concurrent", "workers", "concurrency", "parallelism"), "parallel"),
        **dict.fromkeys(("trials", "gpu_hours", "target", "time"), "it belongs under budget"),
        **dict.fromkeys(("by", "first", "most", "factor", "rule"), "it belongs under stopping"),
    }

    metric: Annotated[str, f.judged(f.text(100))]
    """Reported metric by which trials are compared."""
    space: Annotated[dict[str, Any], f.judged(search_space.checked)]
    """Search space of the parameters."""
    goal: Annotated[str, f.judged(f.choice(tuple(Goal)))] = "minimize"
    sampler: Annotated[str, f.judged(f.choice(SAMPLERS, _SHORT))] = "tpe"
    seed: Annotated[int, f.judged(f.whole(0, 2**32 - 1))] = 0
    stopping: Annotated[StoppingIn, BeforeValidator(_word)] = StoppingIn()
    budget: BudgetIn = BudgetIn()
    parallel: Annotated[int | None, f.judged(f.optional(f.whole(1, 10_000)))] = None
    """Maximum number of trials at once."""
    patience: Annotated[str | int | float | None, f.judged(f.optional(f.seconds(1, 30 * f.DAY)))] = None
    """Maximum time that a trial may run without ever reporting the metric."""
    grow: Annotated[str | int | float | None, f.judged(f.optional(f.parsed(parse_gpu)))] = None
    """GPUs that a trial may hold once it is among the best, in the notation of resources.gpu."""

    def across(self, sound: ValidFields) -> list[BrokenRule]:
        broken = self._grid_rules(sound)
        if sound("stopping") and sound("metric") and self.stopping.by == self.metric:
            rule = "must be another figure than the metric: it says how far a trial is"
            broken.append(BrokenRule(("stopping", "by"), rule, self.stopping.by))
        budget = self.budget
        ends = (budget.trials, budget.gpu_hours, budget.time, budget.target)
        if self.sampler != "grid" and sound("budget") and all(end is None for end in ends):
            rule = "is needed, else the search never ends: such as {trials: 50} or {gpu_hours: 10}"
            broken.append(BrokenRule(("budget",), rule))
        return broken

    def _grid_rules(self, sound: ValidFields) -> list[BrokenRule]:
        if self.sampler != "grid" or not sound("sampler") or not sound("space"):
            return []
        counts = {axis.name: search_space.count(axis) for axis in search_space.axes(self.space)}
        broken = [
            BrokenRule(
                ("space", name),
                "has no end of values for a grid: give a step or a list of choices",
                self.space[name],
            )
            for name, count in counts.items()
            if count is None
        ]
        size = math.prod(count or 1 for count in counts.values())
        if size > MOST_POINTS:
            rule = f"must have at most {MOST_POINTS} points in a grid: give larger steps, or sampler: random"
            broken.append(BrokenRule(("space",), rule, f"{size:.3g} points" if size < 1e300 else "far more"))
        return broken


class Template(Protocol):
    """Fields that a sweep needs of the job that it is a part of."""

    type: str
    run: Any
    sweep: SweepIn | None
    roles: Any
    resources: Any
    launch: str | None
    params: dict[str, Any]

    @property
    def model_fields_set(self) -> set[str]: ...


def sweep_rules(job: Template, sound: ValidFields) -> list[BrokenRule]:
    """Check rules between the search and the template of its trials."""
    if job.sweep is None and sound("sweep"):
        if job.type == "sweep" and sound("type"):
            return [BrokenRule(("sweep",), "is needed: what is searched, by which figure, and when it ends")]
        return []
    broken = []
    if "type" in job.model_fields_set and job.type != "sweep" and sound("type"):
        broken.append(BrokenRule(("type",), "must be sweep beside sweep, or be left out", job.type))
    if job.sweep is None or not sound("resources", "gpu"):
        return broken
    search = job.sweep
    if job.roles is None:
        broken += _size_rules(job, search, parse_gpu(job.resources.gpu), sound)
    elif search.grow is not None:
        broken.append(BrokenRule(("sweep", "grow"), "is for a job without roles", search.grow))
    if sound("params") and sound("sweep", "space"):
        twice = [name for name in job.params if name in search.space]
        broken += [BrokenRule(("params", name), "is searched already, under sweep.space") for name in twice]
        broken += _command_rules(job, search, sound)
    return broken


def _command_rules(job: Template, search: SweepIn, sound: ValidFields) -> list[BrokenRule]:
    known = values_of(search_space.axes(search.space), job.params)
    commands: list[tuple[Place, Any]] = [(("run",), job.run)]
    if job.roles is not None and sound("roles"):
        commands += [(("roles", name, "run"), role.run) for name, role in job.roles.items()]
    return [
        one
        for at, run in commands
        if run is not None and sound(*at)
        for one in argument_rules(at, run, known)
    ]


def _size_rules(job: Template, search: SweepIn, ask: GpuAsk, sound: ValidFields) -> list[BrokenRule]:
    broken = []
    if ask.auto:
        rule = "must be said for the trials of a sweep, such as 1 or 0.25: auto is for single jobs"
        broken.append(BrokenRule(("resources", "gpu"), rule, job.resources.gpu))
    bare = not ask.auto and not ask.sliced and ask.count.high == 0
    if bare and search.parallel is None and sound("sweep", "parallel"):
        rule = "is needed for trials without a GPU: nothing else limits how many run at once"
        broken.append(BrokenRule(("sweep", "parallel"), rule))
    if search.grow is None or not sound("sweep", "grow"):
        return broken
    grown = parse_gpu(search.grow)
    if grown.auto or grown.sliced or grown.count.high == 0:
        broken.append(BrokenRule(("sweep", "grow"), "must be whole GPUs, such as 1 or 1..4", search.grow))
    elif not grown.count.rigid and job.launch in ("once", "per-node"):
        rule = "a range needs launch: per-gpu; one process cannot gain or lose GPUs while it runs"
        broken.append(BrokenRule(("sweep", "grow"), rule, search.grow))
    return broken


def params_checked(value: Any) -> dict[str, bool | int | float | str]:
    """Accept names and plain values, as a search would choose them."""
    if not isinstance(value, Mapping):
        raise ValueError("must be a mapping from a parameter's name to its value, such as {lr: 0.1}")
    if len(value) > search_space.MOST_AXES:
        raise ValueError(f"must have at most {search_space.MOST_AXES} parameters")
    broken = []
    for name, one in value.items():
        if not search_space.is_name(name):
            broken.append(BrokenRule((str(name),), search_space.NAME_RULE))
        elif not isinstance(one, bool | int | float | str) or (
            isinstance(one, float) and not math.isfinite(one)
        ):
            broken.append(BrokenRule((name,), "must be a number, a text, true or false", one))
    if broken:
        raise failure(broken)
    return dict(value)


def to_sweep(given: SweepIn) -> Sweep:
    """Return the search for the core."""
    return Sweep(
        axes=search_space.axes(given.space),
        metric=given.metric,
        goal=Goal(given.goal),
        sampler=given.sampler,
        seed=given.seed,
        stopping=_stopping(given.stopping),
        budget=_budget(given.budget),
        parallel=given.parallel,
        patience=None if given.patience is None else parse_seconds(given.patience),
        grow="" if given.grow is None else str(given.grow),
    )


def _stopping(given: StoppingIn) -> Stopping:
    first, most = (None if end is None else float(end) for end in (given.first, given.most))
    return Stopping(rule=Rule(given.rule), by=given.by, first=first, most=most, factor=given.factor)


def _budget(given: BudgetIn) -> Budget:
    return Budget(
        trials=given.trials,
        gpu_seconds=None if given.gpu_hours is None else 3600.0 * given.gpu_hours,
        seconds=None if given.time is None else parse_seconds(given.time),
        target=None if given.target is None else float(given.target),
        trial_gpu_seconds=None if given.trial_gpu_hours is None else 3600.0 * given.trial_gpu_hours,
    )
