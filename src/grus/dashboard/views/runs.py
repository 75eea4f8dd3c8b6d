"""Stored runs on pages: a line each, one with all its facts, two side by side. Pure."""

from collections.abc import Sequence

from grus.dashboard.views.job_detail import BADGES
from grus.dashboard.views.sweep import HOUR, amount
from grus.dashboard.views.sweep_search_data import value_words
from grus.model.artifacts import Artifact
from grus.model.metrics_history import BATCH, STEP
from grus.model.results import Result, words_of
from grus.model.run_diff import Difference, DifferenceKind, differences
from grus.model.sweep_search import Value
from grus.model.texts.formatting import number, size, span
from grus.model.texts.units import gpu_number

MOST_FIGURES = 4
"""Metrics that have room in a line."""
COUNTS = frozenset({STEP, BATCH, "total", "epoch", "epochs"})
"""Figures that say how far a run came, not how well it did."""
MEMORIES = frozenset({"peak memory", "host memory"})
"""Metrics that are compared and counted in bytes."""
DIGEST = 12
"""Letters of a digest that tell things apart for people."""


def line(run: Result) -> dict[str, object]:
    """One of the list."""
    well = [one for one in run.metrics if one.name not in COUNTS]
    return {
        "job": run.job,
        "name": run.name,
        "state": BADGES[run.phase],
        "status": run.phase.value,
        "user": run.user,
        "queue": run.queue,
        "ended": round(run.ended_at, 3),
        "ran": span(run.seconds),
        "hours": amount(run.gpu_seconds / HOUR),
        "params": [[name, value_words(value)] for name, value in run.params],
        "metrics": [[one.name, value_words(one.last)] for one in well[:MOST_FIGURES]],
        "code": run.code[:DIGEST],
        "trial": None if run.trial is None else run.trial.number,
    }


def facts(run: Result) -> list[tuple[str, str]]:
    """Return its known facts, in reading order; unknown ones are left out."""
    found = [
        ("user", run.user),
        ("queue", run.queue),
        ("type", run.type.value),
        ("how it ended", run.reason),
        ("attempts", str(run.attempts)),
        ("ran", span(run.seconds)),
        ("GPU-hours", amount(run.gpu_seconds / HOUR)),
        ("GPUs at most", number(gpu_number(run.most_held))),
        ("command", words_of(run.command)),
        ("folder", run.workdir),
        ("image", run.image),
        ("code", run.code),
        ("data", run.data),
        ("profile", run.fingerprint),
        ("key", run.key),
    ]
    return [(name, value) for name, value in found if value]


def metric_rows(run: Result) -> list[list[str]]:
    return [
        [one.name, value_words(one.last), value_words(one.least), value_words(one.most)]
        for one in run.metrics
    ]


def artefact_rows(artefacts: Sequence[Artifact]) -> list[list[str]]:
    return [[one.name, one.digest, size(one.size)] for one in artefacts]


# ---------------------------------------------------------------------------------------------- two of them


def beside(one: Result, other: Result) -> list[dict[str, object]]:
    """Compare two runs in parts, a line per item: both values, and whether they are the same."""
    found = differences(one, other)
    parts = {part: [_row(line) for line in found if line.part is part] for part in DifferenceKind}
    return [{"title": part.value.capitalize(), "rows": rows} for part, rows in parts.items() if rows]


def _row(line: Difference) -> dict[str, object]:
    return {
        "name": line.name,
        "left": _cell(line.name, line.first),
        "right": _cell(line.name, line.second),
        "same": line.same,
    }


def _cell(name: str, value: Value | None) -> str:
    """Format a value with its unit, if it has one."""
    if isinstance(value, str | bool) or value is None:
        return value_words(value)
    if name == "seconds":
        return span(value)
    return size(value) if name in MEMORIES else value_words(value)
