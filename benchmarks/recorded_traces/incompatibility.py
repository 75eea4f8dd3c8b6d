"""Objections: reasons why recorded traces of two places cannot be compared, with the figures as evidence.
Pure.

Nothing here knows which traces it examines: a reason is given if, and only if, the samples themselves show
it, or hold no column that could rule it out. Problems of single figures are in `misleading_figures`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from benchmarks.recorded_traces.features import (
    GIB,
    all_memory,
    gpu_names,
    listed,
    partner_of,
    pauses,
    period,
    steady_from,
    used_gpus,
)
from benchmarks.recorded_traces.traces import Trace, TraceResource, TraceSet

PROGRESS = ("step", "iter", "sample", "image", "epoch", "batch", "loss", "throughput")
"""Words in the names of columns that show training progress."""
MANY = 2
"""Pauses from which on they are a habit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """One reason why a difference between the places means nothing."""

    what: str
    why: str
    figures: dict[str, float] = field(default_factory=dict)


Reason = Callable[[TraceSet], Iterator[Objection]]


def gpu_counts(found: TraceSet) -> Iterator[Objection]:
    counts = {
        place: (len(used_gpus(trace)), len(gpu_names(trace)))
        for place in found.places
        for trace in found.of(place, TraceResource.GPU)
    }
    if len({used for used, _ in counts.values()}) > 1:
        said = [f"{place} used {used} of the {seen} in its trace" for place, (used, seen) in counts.items()]
        yield Objection(
            what="other numbers of GPUs",
            why=f"{listed(said)}.",
            figures={f"{place} GPUs used": float(used) for place, (used, _) in counts.items()},
        )


def rhythm(found: TraceSet) -> Iterator[Objection]:
    """Work that pauses in one place and never in the other is not the same work."""
    said: list[str] = []
    figures: dict[str, float] = {}
    habits = set()
    working = [
        trace for place in found.places for trace in found.of(place, TraceResource.GPU) if used_gpus(trace)
    ]
    for trace in working:
        words, its = _pace(trace, period(found))
        said.append(words)
        figures |= its
        habits.add(its[f"{trace.place} pauses"] > MANY)
    if len(habits) > 1:
        why = f"After the ramp-up {'; '.join(said)}. Other phases, or another program."
        yield Objection(what="not the same work", why=why, figures=figures)


def _pace(trace: Trace, usual: float) -> tuple[str, dict[str, float]]:
    """Describe in words and figures how busy a place's GPUs are and how they rest."""
    place, rests = trace.place, pauses(trace)
    levels = listed([f"{np.median(trace.columns[name]):g} %" for name in used_gpus(trace)])
    figures = {f"{place} pauses": float(len(rests))}
    if len(rests) <= MANY:
        return f"{place} is at {levels} (median) and never stands still", figures
    every = float(np.median(np.diff([first for first, _ in rests]))) * usual
    part = sum(length for _, length in rests) / (len(trace) - steady_from(trace))
    figures |= {f"{place} seconds between pauses": every, f"{place} paused part": part}
    words = f"{place} is at {levels} (median) and stands still {len(rests)} times, once in {every:g} s"
    return f"{words}, {part:.1%} of the time", figures


def throughput(found: TraceSet) -> Iterator[Objection]:
    names = [name for trace in found.traces for name in trace.columns]
    if not any(word in name for name in names for word in PROGRESS):
        yield Objection(
            what="no throughput",
            why=f"None of the {len(names)} columns of {len(found.traces)} files is a step, a sample, a batch "
            "or a loss: how busy something was is known; how fast, and whether it was finished, is not.",
            figures={"columns": float(len(names))},
        )


def specifications(found: TraceSet) -> Iterator[Objection]:
    totals = {
        place: float(np.median(all_memory(trace))) / GIB
        for place in found.places
        for trace in found.of(place, TraceResource.MEMORY)[:1]
    }
    known = listed([f"{place} {gib:,.0f} GiB" for place, gib in totals.items()])
    memory = f" Only the nodes' memory can be worked out: {known}." if totals else ""
    yield Objection(
        what="no specifications",
        why="Nothing says which GPU, how many cores, which precision, batch, code or data. So per cent of a "
        f"CPU cannot be made cores, nor per cent of a GPU work.{memory}",
        figures={f"{place} GiB": gib for place, gib in totals.items()},
    )


def lengths(found: TraceSet) -> Iterator[Objection]:
    usual = period(found)
    lasting = {trace.file: (len(trace) - 1) * usual for trace in found.traces}
    if len(set(lasting.values())) > 1:
        shown = listed([f"{name} {seconds:,.0f} s" for name, seconds in lasting.items()])
        yield Objection(
            what="other lengths, and no end",
            why=f"They last {shown}; nothing marks where a training began or ended.",
            figures=lasting,
        )


def repeats(found: TraceSet) -> Iterator[Objection]:
    seen = [(trace.place, trace.holds, trace.condition) for trace in found.traces]
    if len(set(seen)) == len(seen):
        yield Objection(
            what="no repeats",
            why="Every run was made once: how much two runs in one place differ is not known. So no interval "
            "can be given, and any difference may be chance.",
        )


def attribution(found: TraceSet) -> Iterator[Objection]:
    host = [trace.file for trace in found.traces if trace.holds is not TraceResource.GPU]
    if host:
        yield Objection(
            what="whole nodes, not the workload",
            why=f"{listed(host)} count everything that ran on a node: what others did there is in them.",
        )


def absent(found: TraceSet) -> Iterator[Objection]:
    """Runs of which only some kinds of figures are there."""
    for place in found.places:
        runs = found.of(place, TraceResource.CPU)
        for trace in (
            one for holds in (TraceResource.MEMORY, TraceResource.GPU) for one in found.of(place, holds)
        ):
            if len(found.of(place, trace.holds)) < len(runs):
                partner, by = partner_of(trace, runs)
                others = listed([f"{one.file} ({len(one)})" for one in runs if one is not partner])
                yield Objection(
                    what=f"{trace.holds} of one run only",
                    why=f"{place} has {len(runs)} runs and one {trace.holds} trace: {trace.file} with "
                    f"{len(trace)} samples goes by its {by} with {partner.file} ({len(partner)}). "
                    f"Of {others} it is not known.",
                )


def clocks(found: TraceSet) -> Iterator[Objection]:
    without = [trace.file for trace in found.traces if trace.clock is None]
    if without:
        yield Objection(
            what="no common clock",
            why=f"{listed(without)} have no time: they can be laid beside the others by the number of a "
            "sample only, if all began at once and none was lost.",
        )
    jumps = [f"{trace.file} (before sample {trace.jumps[0]})" for trace in found.traces if trace.jumps]
    if jumps:
        yield Objection(
            what="clocks that jump",
            why=f"Morning and afternoon are mixed up in {listed(jumps)}: the time of day is wrong by half a "
            "day before or after it. Times between samples are sound.",
        )
