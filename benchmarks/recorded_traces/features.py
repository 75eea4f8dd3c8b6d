"""Features of recorded traces: their period, the GPUs that worked, ramp-up, pauses, peaks. Pure."""

from collections.abc import Sequence

import numpy as np

from benchmarks.recorded_traces.traces import Trace, TraceSet, Values

GIB = 1 << 20
"""Kilobytes, as sar means them, in one GiB."""
BUSY = 5.0
"""Per cent of use from which on a GPU is in use."""
STEADY = 6
"""Samples in a row with at least half its usual use, from which on a GPU's ramp-up is over."""


def period(found: TraceSet) -> float:
    """Seconds between two samples, of all traces that have a clock."""
    steps = [trace.steps for trace in found.traces if trace.steps is not None]
    return float(np.median(np.concatenate(steps))) if steps else float("nan")


def gaps(trace: Trace, usual: float) -> int:
    """Count the places at which the clock does not advance by the usual time."""
    return 0 if trace.steps is None else int(np.count_nonzero(trace.steps != usual))


def gpu_names(trace: Trace) -> list[str]:
    return [name for name in trace.columns if name.startswith("gpu")]


def used_gpus(trace: Trace) -> list[str]:
    """Those that are in use for more than half of the samples."""
    return [name for name in gpu_names(trace) if np.median(trace.columns[name]) > BUSY]


def steady_from(trace: Trace) -> int:
    """The first sample (from 0) at which every used GPU is at least half as busy as usual, and stays so."""
    used = [trace.columns[name] for name in used_gpus(trace)]
    if not used:
        return 0
    calm = np.all([values >= np.median(values) / 2 for values in used], axis=0)
    for place in range(len(calm) - STEADY):
        if calm[place : place + STEADY].all():
            return place
    return 0


def pauses(trace: Trace) -> list[tuple[int, int]]:
    """Stretches after the ramp-up in which every used GPU did nothing: first sample (from 0), and length."""
    start, used = steady_from(trace), used_gpus(trace)
    if not used:
        return []
    idle = np.all([trace.columns[name] < 1.0 for name in used], axis=0)
    found: list[tuple[int, int]] = []
    for place in np.flatnonzero(idle):
        if place < start:
            continue
        if found and found[-1][0] + found[-1][1] == place:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((int(place), 1))
    return found


def above(values: Values, usual: float) -> tuple[int, int, int]:
    """Samples above three times what is usual: how many, the first and the last of them (from 1)."""
    found = np.flatnonzero(values > 3 * usual)
    return (len(found), int(found[0]) + 1, int(found[-1]) + 1) if len(found) else (0, 0, 0)


def all_memory(trace: Trace) -> Values:
    total: Values = trace.columns["kbmemfree"] + trace.columns["kbmemused"]
    return total


def memory_columns(trace: Trace) -> dict[str, Values]:
    """Return the memory columns in GiB."""
    found: dict[str, Values] = {}
    for name in ("kbavail", "kbmemfree", "kbmemused"):
        if name in trace.columns:
            found[name] = trace.columns[name] / GIB
    return {**found, "all memory": all_memory(trace) / GIB}


def partner_of(trace: Trace, runs: list[Trace]) -> tuple[Trace, str]:
    """Return the run that a trace was recorded with, and the evidence for it."""
    for run in runs:
        if trace.clock is not None and run.clock is not None and trace.clock[0] == run.clock[0]:
            return run, "clock"
    return min(runs, key=lambda run: abs(len(run) - len(trace))), "length"


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
