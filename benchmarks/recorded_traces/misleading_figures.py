"""Figures of recorded traces that are not what they seem, each with the figures that prove it. Pure."""

from collections.abc import Iterator

import numpy as np

from benchmarks.recorded_traces.features import (
    BUSY,
    GIB,
    above,
    all_memory,
    gpu_names,
    listed,
    memory_columns,
    partner_of,
    period,
    steady_from,
    used_gpus,
)
from benchmarks.recorded_traces.incompatibility import (
    Objection,
    Reason,
    absent,
    attribution,
    clocks,
    gpu_counts,
    lengths,
    repeats,
    rhythm,
    specifications,
    throughput,
)
from benchmarks.recorded_traces.traces import PublishedFigure, Trace, TraceResource, TraceSet
from grus.compare.html_report import digits

CONSTANT = 0.001
"""The part by which a sum may vary and still be called the same."""
TIED = 0.5
"""Correlation from which on one column follows another."""
WHOLE = 99.5
"""Per cent from which on parts make up the whole."""


def objections(found: TraceSet) -> tuple[Objection, ...]:
    """All that apply, the gravest first."""
    return tuple(one for reason in _REASONS for one in reason(found))


def unlike_figures(found: TraceSet) -> Iterator[Objection]:
    """A table of somebody's that sets one kind of figure beside another."""
    said: list[str] = []
    kinds: set[str] = set()
    figures: dict[str, float] = {}
    for stated in found.stated:
        for trace in found.of(stated.place, TraceResource.MEMORY)[:1]:
            column, statistic = _origin(stated, trace)
            words = f"{stated.place}'s “{stated.name} {stated.value:g}”"
            if not statistic:
                said.append(f"{words} is none of its figures")
                continue
            kinds.add(statistic)
            values = memory_columns(trace)[column]
            figures[f"{stated.place} {column}, mean GiB"] = mean = float(values.mean())
            peak = ", also its peak" if statistic != "mean" and values.max() == values[0] else ""
            aside = "" if statistic == "mean" else f"{peak} (its mean is {mean:.1f})"
            said.append(f"{words} is the {statistic} of {column}{aside}")
    if len(kinds) > 1:
        yield Objection(
            what="a table of unlike figures",
            why=f"In GiB, {'; '.join(said)}. One place's first moment stands beside another's mean.",
            figures=figures,
        )


def _origin(stated: PublishedFigure, trace: Trace) -> tuple[str, str]:
    """Return the column and statistic that yield the stated value at its precision; empty if there is
    none.
    """
    for column, values in memory_columns(trace).items():
        statistics = {
            "mean": values.mean(),
            "first sample": values[0],
            "median": np.median(values),
            "peak": values.max(),
        }
        for name, value in statistics.items():
            if round(float(value)) == round(stated.value):
                return column, name
    return "", ""


def cached_files(found: TraceSet) -> Iterator[Objection]:
    """`used` that is all but free: files that the kernel keeps are in it."""
    parts = {}
    for place in found.places:
        for trace in found.of(place, TraceResource.MEMORY)[:1]:
            whole = all_memory(trace)
            if "kbcached" in trace.columns and np.ptp(whole) < CONSTANT * np.median(whole):
                used, cached = trace.columns["kbmemused"], trace.columns["kbcached"]
                parts[place] = (float(np.median(used)) / GIB, float(np.median(used - cached)) / GIB)
    if len(parts) > 1:
        shown = listed([f"{place} {used:.1f} GiB, {own:.1f} without" for place, (used, own) in parts.items()])
        (first, own_first), (second, own_second) = list(parts.values())[:2]
        yield Objection(
            what="used memory includes cached files",
            why="kbmemused and kbmemfree always make up the same sum, so files that the kernel keeps count "
            f"as used: {shown} (medians). With them the first has {first / second:.2f} times what the second "
            f"has, without them {own_first / own_second:.2f} times.",
            figures={f"{place} GiB without cache": own for place, (_, own) in parts.items()},
        )


def gpu_memory(found: TraceSet) -> Iterator[Objection]:
    """A `mem` column that is activity: it follows the use, and is nothing where nothing runs."""
    said: list[str] = []
    figures: dict[str, float] = {}
    for trace in (trace for trace in found.traces if trace.holds is TraceResource.GPU):
        for name in used_gpus(trace):
            memory, use = trace.columns.get(name.replace("gpu", "mem")), trace.columns[name]
            if memory is None or not np.any(use == 0):
                continue
            figures[f"{trace.file} {name}"] = tie = float(np.corrcoef(use, memory)[0, 1])
            empty = float(np.mean(memory[use == 0] == 0))
            said.append(f"{trace.file} {name} (correlation {tie:.2f}; 0 in {empty:.0%} of idle samples)")
    if said and min(figures.values()) > TIED:
        yield Objection(
            what="memory columns that are not memory",
            why=f"The mem columns follow the use in {listed(said)}: they say how much of the time memory was "
            "read or written. Memory that a process holds does not come and go like that; how much was held "
            "is not recorded.",
            figures=figures,
        )


def prelude(found: TraceSet) -> Iterator[Objection]:
    """Other GPUs at work before the run, and a peak of the memory that falls there."""
    for trace in (trace for trace in found.traces if trace.holds is TraceResource.GPU):
        start, used = steady_from(trace), used_gpus(trace)
        others = [trace.columns[name] for name in gpu_names(trace) if name not in used]
        active = np.flatnonzero(np.max(others, axis=0) > BUSY) if others else np.empty(0)
        if not len(active) or active[-1] >= start:
            continue
        last = int(active[-1]) + 1
        for memory in found.of(trace.place, TraceResource.MEMORY):
            held = memory.columns["kbmemused"] / GIB
            peak, after = int(np.argmax(held)) + 1, float(held[start:].max())
            if peak <= last:
                yield Objection(
                    what="something else came first",
                    why=f"In {trace.file} the other GPUs work too up to sample {last} (at most "
                    f"{np.max(others):g} %), and never again: that is not the run that follows. The peak of "
                    f"{memory.file}, {held.max():.1f} GiB, falls there (sample {peak}); the run's own is "
                    f"{after:.1f} GiB.",
                    figures={"GiB at the peak": float(held.max()), "GiB of the run": after},
                )


def hardly_a_load(found: TraceSet) -> Iterator[Objection]:
    """A load that was there for a short while only."""
    for trace in found.traces:
        if trace.holds is not TraceResource.CPU or "load" not in trace.condition:
            continue
        user = trace.columns["%user"]
        runs = found.of(trace.place, TraceResource.CPU)
        plain = [one for one in runs if "load" not in one.condition]
        # A lasting load raises the trace's own median: the runs without one define the usual level, too.
        usual = min(float(np.median(one.columns["%user"])) for one in (trace, *plain))
        count, first, last = above(user, usual)
        if count > len(trace) / 2:
            continue
        against = "".join(f", against {np.median(one.columns['%user']):.2f} % in {one.file}" for one in plain)
        beside = [
            _beside(gpu, first, last)
            for gpu in found.of(trace.place, TraceResource.GPU)
            if count and partner_of(gpu, runs)[0] is trace
        ]
        yield Objection(
            what="hardly any load",
            why=f"In {trace.file} the CPU is above three times its usual {usual:.2f} % user in {count} of "
            f"{len(trace)} samples ({digits(count * period(found))} s, {count / len(trace):.1%}), from "
            f"sample {first} to {last}. Its median is {np.median(user):.2f} %{against}.{''.join(beside)} "
            "What a load does to the training cannot be read from that.",
            figures={
                "samples with a load": float(count),
                "part with a load": count / len(trace),
                "% user, median": float(np.median(user)),
                **{f"% user, median, {one.file}": float(np.median(one.columns["%user"])) for one in plain},
            },
        )


def _beside(gpu: Trace, first: int, last: int) -> str:
    """Describe the GPUs' use meanwhile and later, by the number of the sample."""
    start = steady_from(gpu)
    if last <= start:
        return " The GPU was still starting."
    said = []
    for name in used_gpus(gpu):
        during = gpu.columns[name][max(start, first - 1) : last].mean()
        later = gpu.columns[name][last:].mean()
        said.append(f"{name} is at {during:.1f} % meanwhile and {later:.1f} % later")
    steady = f"The GPU is steady from sample {start + 1} on; {listed(said)} (means)"
    return f" {steady}, with no second run to tell it from chance."


def incomplete(found: TraceSet) -> Iterator[Objection]:
    """Parts of the CPU's time that do not add up in every file."""
    sums = {
        trace.file: float(np.mean(sum(trace.columns[name] for name in ("%user", "%system", "%idle"))))
        for trace in found.traces
        if trace.holds is TraceResource.CPU
    }
    if sums and min(sums.values()) < WHOLE <= max(sums.values()):
        shown = listed([f"{value:.1f} % in {name}" for name, value in sums.items()])
        yield Objection(
            what="columns are missing",
            why=f"User, system and idle add up to {shown} (means). What is missing, such as waiting for "
            "disks or time taken by other guests, was left out where it was not zero.",
            figures=sums,
        )


_REASONS: tuple[Reason, ...] = (
    gpu_counts,
    rhythm,
    throughput,
    specifications,
    lengths,
    repeats,
    attribution,
    unlike_figures,
    cached_files,
    gpu_memory,
    prelude,
    hardly_a_load,
    absent,
    incomplete,
    clocks,
)
