"""Telemetry in words, for the tables of `top`: values of GPUs and jobs, and their recognized activity.

A dash marks a value that is not measured; it never means zero.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from grus.cli.render.output import between, size, span

if TYPE_CHECKING:
    from grus.api.profile_wire import TagOut
    from grus.api.wire_types.pool import GpuOut, NodeOut
    from grus.api.wire_types.telemetry import FiguresOut, TelemetryOut

GPU_HEADINGS = ("GPU", "USE", "MEMORY", "POWER", "TEMP", "KIND", "PERIOD", "STAGE", "HELD BY")
DASH = "–"


def kind_word(tag: "TagOut | None") -> str:
    """Return the kind of activity, and since when it hangs, if it does."""
    if tag is None:
        return DASH
    return f"{tag.kind}, hung {between(tag.hung_since, None)}" if tag.hung_since else tag.kind


def period_word(tag: "TagOut | None") -> str:
    if tag is None or tag.period is None:
        return DASH
    return f"{tag.period:.1f}s" if tag.period < 20 else span(tag.period)


def stage_word(tag: "TagOut | None") -> str:
    return (tag.stage if tag is not None else "") or DASH


def share(value: float | None) -> str:
    return DASH if value is None else f"{value:.0%}"


def gpu_rows(
    nodes: "Iterable[NodeOut]", told: "TelemetryOut | None", names: Mapping[str, str]
) -> list[list[str]]:
    """A line a GPU; one that is partitioned has a line for each instance that is measured, too."""
    by_gpu: dict[str, list[FiguresOut]] = {}
    for figures in told.figures if told is not None else ():
        if figures.gpu:
            by_gpu.setdefault(figures.gpu, []).append(figures)
    rows = []
    for node in nodes:
        for gpu in node.gpus:
            found = by_gpu.get(gpu.id, [])
            whole = next((one.values for one in found if not one.instance), {})
            rows.append([gpu.id, *_shown(gpu, whole), _holders(gpu, names)])
            rows += [[f"{gpu.id}#{one.instance}", *_part(one.values), ""] for one in found if one.instance]
    return rows


def _shown(gpu: "GpuOut", values: Mapping[str, float]) -> list[str]:
    memory = values.get("memory")
    taken = DASH if memory is None else f"{size(memory)} of {size(gpu.memory)}"
    words = (kind_word(gpu.tag), period_word(gpu.tag), stage_word(gpu.tag))
    return [share(values.get("utilisation")), taken, _watts(values), _degrees(values), *words]


def _part(values: Mapping[str, float]) -> list[str]:
    busy = values.get("utilisation", values.get("active"))
    memory = values.get("memory")
    taken = DASH if memory is None else size(memory)
    return [share(busy), taken, _watts(values), _degrees(values), DASH, DASH, DASH]


def _watts(values: Mapping[str, float]) -> str:
    return f"{values['power']:.0f}W" if "power" in values else DASH


def _degrees(values: Mapping[str, float]) -> str:
    return f"{values['temperature']:.0f}°C" if "temperature" in values else DASH


def _holders(gpu: "GpuOut", names: Mapping[str, str]) -> str:
    return ", ".join(names.get(one.job, one.job) or "somebody" for one in gpu.holders) or gpu.outside


def of_job(told: "TelemetryOut | None", job: str) -> "list[FiguresOut]":
    return [one for one in told.figures if one.job == job] if told is not None else []


def mean(found: "Sequence[FiguresOut]", measure: str) -> float | None:
    values = [one.values[measure] for one in found if measure in one.values]
    return sum(values) / len(values) if values else None


def total(found: "Sequence[FiguresOut]", measure: str) -> float | None:
    values = [one.values[measure] for one in found if measure in one.values]
    return sum(values) if values else None


def losses(told: "TelemetryOut | None") -> list[str]:
    """List lost measurements, one line each, so that a missing value is not read as idleness."""
    if told is None:
        return []
    lost = [f"not measured since {between(one.since, None)}: {one.what} ({one.why})" for one in told.lost]
    return lost + ([told.trouble] if told.trouble else [])
