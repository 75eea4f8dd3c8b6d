"""Presentation of estimates: the GPU and strategy that fit the training, the parts of its memory, advice."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from grus.cli.render.output import say, size, table
from grus.estimation.gpus import CATALOGUE
from grus.estimation.memory_estimator import Biggest, Estimate, of_mapping
from grus.model.distributed_options import ALTERING

PARTS = ("weights", "gradients", "optimizer", "activations", "workspace", "context")


class Estimates:
    """Estimates of one training, as the child process reported them."""

    def __init__(self, target: str, told: Mapping[str, Any]) -> None:
        self._target = target
        self._parameters: int = told["parameters"]
        self._all = [of_mapping(one) for one in told["estimates"]]
        searched: list[Biggest | None] = [Biggest(**one) for one in told["biggest"]]
        self._biggest = searched or [None] * len(self._all)

    def as_json(self) -> dict[str, object]:
        return {
            "target": self._target,
            "parameters": self._parameters,
            "batch": self._all[0].size,
            "workers": self._all[0].workers,
            "estimates": [_as_json(*both) for both in zip(self._all, self._biggest, strict=True)],
        }

    def show(self) -> None:
        first = self._all[0]
        workers = f" on each of {first.workers} workers" if first.workers > 1 else ""
        say(f"{self._target}: {_count(self._parameters)} parameters, batch of {first.size}{workers}\n")
        rows = [_row(*both) for both in zip(self._all, self._biggest, strict=True)]
        _without_empty([*rows[0]], [[*row.values()] for row in rows])
        say()
        labels = [_label(one, self._all) for one in self._all]
        table(
            ["OF IT", *map(str.upper, PARTS)],
            [
                [label, *(size(getattr(one.parts, part)) for part in PARTS)]
                for label, one in zip(labels, self._all, strict=True)
            ],
        )
        say(f"\n{advice(self._all)}")


def advice(estimates: Sequence[Estimate]) -> str:
    """Advise on the result in a sentence or two."""
    holding = [one for one in estimates if one.fits]
    if len(estimates) == 1 and holding:
        return f"It fits: ask for {_asked(estimates[0])}."
    if holding:
        return _fastest(holding, estimates)
    least = min(estimates, key=lambda one: one.upper - one.gpu.context)
    larger = [kind for kind in CATALOGUE if least.upper - least.gpu.context <= kind.room]
    ways = ["take a smaller --batch", "look at --compare"]
    if larger:
        ways.append(f"take a larger GPU ({min(larger, key=lambda kind: kind.memory).name} would do)")
    perhaps = (
        "It fits perhaps, but not for sure" if any(one.perhaps for one in estimates) else "It does not fit"
    )
    return f"{perhaps}: {', '.join(ways)}, or `grus split` it."


def _fastest(holding: Sequence[Estimate], estimates: Sequence[Estimate]) -> str:
    """Name the fastest plan that computes the exact training that was requested.

    Beside it, name a faster one whose results are only close to it.
    """
    exact = [one for one in holding if not ALTERING & set(one.how)] or holding
    best, faster = (min(some, key=lambda one: one.seconds) for some in (exact, holding))
    said = f"The fastest that fits: {_label(best, estimates)}; ask for {_asked(best)}."
    if faster.seconds < best.seconds:
        said += f" {_label(faster, estimates)} is faster, with results that are close but not the same."
    return said


def _asked(one: Estimate) -> str:
    """Return the request that a job would contain: memory of one GPU in steps of 100 MB, or whole GPUs for
    several.
    """
    amount = str(one.workers) if one.workers > 1 else size(-(-one.upper // 10**8) * 10**8)
    words = f" with the strategy `{_how(one)}`" if one.how else ""
    return f"`gpu: {amount}`{words}"


def _as_json(one: Estimate, searched: Biggest | None) -> dict[str, object]:
    found: dict[str, object] = asdict(one) | {
        "gpu": one.gpu.name,
        "memory": one.gpu.memory,
        "batch": one.size,
        "strategy": _how(one),
        "perhaps": one.perhaps,
    }
    del found["size"], found["how"]
    if searched is not None:
        found |= {"biggest_batch": searched.size, "too_big": searched.too_big}
    return found


def _row(one: Estimate, searched: Biggest | None) -> dict[str, str]:
    """Return the values of a row by heading; headings that are empty in all rows are not shown."""
    return {
        "GPU": one.gpu.name,
        "HAS": size(one.gpu.memory),
        "STRATEGY": " ".join(one.how),
        "ESTIMATE": size(one.estimate),
        "AT MOST": size(one.upper),
        "FITS": "yes" if one.fits else "perhaps" if one.perhaps else "no",
        "STEP": _span(one.seconds),
        "SENDS": size(one.traffic) if one.traffic else "",
        "BIGGEST BATCH": _batches(searched),
    }


def _without_empty(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    shown = [number for number in range(len(headings)) if any(row[number] for row in rows)]
    table([headings[n] for n in shown], [[row[n] or _nothing(headings[n]) for n in shown] for row in rows])


def _nothing(heading: str) -> str:
    return "plain" if heading == "STRATEGY" else "–"


def _how(one: Estimate) -> str:
    return " ".join(one.how) or ("ddp" if one.workers > 1 else "plain")


def _label(one: Estimate, among: Sequence[Estimate]) -> str:
    """Return the label that distinguishes this estimate from the others."""
    several = len({other.gpu for other in among}) > 1
    if len({other.how for other in among}) == 1:
        return one.gpu.name
    return f"{one.gpu.name}, {_how(one)}" if several else _how(one)


def _batches(searched: Biggest | None) -> str:
    if searched is None:
        return ""
    if not searched.size:
        return "none"
    return str(searched.size) if searched.too_big is not None else f"{searched.size} or more"


def _span(seconds: float) -> str:
    return f"{seconds:.1f}s" if seconds >= 1 else f"{seconds * 1000:.3g}ms"


def _count(number: int) -> str:
    for unit, name in ((10**9, " billion"), (10**6, " million"), (10**3, " thousand")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return str(number)
