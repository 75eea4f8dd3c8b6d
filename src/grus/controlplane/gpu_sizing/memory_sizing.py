"""GPU memory and execution plan of a job: chosen by its estimate, by the history of similar jobs, and always
above an amount that ran out of memory (OOM). Pure.

    auto      the fastest of its plans that some GPU of the pool can hold
    a slice   as large as requested, or larger than what was too small; at last a whole GPU, of a larger type
    GPUs      of any requested type whose memory is larger than what was too small

An amount that is too small with so many GPUs is too small with fewer of the same size, and with less memory.
Each answer requests more than everything that was too small, so a job runs out of answers before it fails the
same way twice.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from grus.model.execution_plans import Shortage, Way, merged
from grus.model.jobs import Launch, Phase, Spec
from grus.model.profiles import JobProfile
from grus.model.resources import GPU, Range, Replica, Role
from grus.model.texts.plural_words import counted
from grus.model.texts.units import render_bytes_short

GROWTH = 1.5
"""Factor by which the next size exceeds the one that ran out of memory."""
MARGIN = 1.1
"""Margin above the highest peak seen: runs differ, and peaks are measured once a second."""
WATCHED = 10.0
"""Minimum seconds for which a run must have been watched for its peak to override an estimate."""
FINEST = 10_000_000
"""Bytes to which sizes are rounded up, for readability."""

Fits = Callable[[Spec], str]
"""Function that returns why no state of the pool could run it; empty if one could."""


class GpuModel(NamedTuple):
    """GPUs of one type and size in the pool."""

    type: str
    memory: int


class Peak(NamedTuple):
    """Peak memory on one GPU of a run with so many GPUs and this execution plan."""

    gpus: int
    how: tuple[str, ...]
    memory: int
    slice: int = 0
    """Possible slice size; 0 for all of a GPU."""


@dataclass(frozen=True, slots=True)
class MemoryHistory:
    """Memory history of similar jobs."""

    enough: tuple[Peak, ...] = ()
    """Peaks of runs that succeeded and were watched for long enough: the memory they used."""
    seen: tuple[Peak, ...] = ()
    """Peaks of all other runs: a lower bound of the memory needed."""
    sufficed: tuple[Peak, ...] = ()
    """Slices with which runs succeeded, regardless of how long they were watched."""
    short: tuple[Shortage, ...] = ()


@dataclass(frozen=True, slots=True)
class SizedSpec:
    """Spec with the chosen size, and the reason in words; "" if the size is as requested."""

    spec: Spec
    why: str = ""


@dataclass(frozen=True, slots=True)
class NoFittingSize:
    """No size that fits the pool would be enough; the reason, and what would, in words."""

    why: str


def known(profile: JobProfile | None, given: str, own: Iterable[Shortage] = ()) -> MemoryHistory:
    """Return the memory history from a profile, of runs with the same inputs; `own` are the job's own
    shortages.
    """
    if profile is None:
        return MemoryHistory(short=merged(own))
    uses = [(run, use) for run in profile.runs if run.given == given for use in run.uses]
    enough: list[Peak] = []
    seen: list[Peak] = []
    sufficed: list[Peak] = []
    for run, use in uses:
        done = run.phase is Phase.SUCCEEDED
        peak = Peak(_count(use.gpus), use.how, use.memory or 0, use.slice)
        if use.memory:
            (enough if done and use.seconds >= WATCHED else seen).append(peak)
        if done and use.slice:
            sufficed.append(peak)
    theirs = (one for one in profile.short if one.given == given)
    return MemoryHistory(tuple(enough), tuple(seen), tuple(sufficed), merged([*theirs, *own]))


def size(spec: Spec, known: MemoryHistory, pool: Sequence[GpuModel], fits: Fits) -> SizedSpec | NoFittingSize:
    """Return the spec with a size that may work. `spec.request` is what the user requested."""
    request = spec.request
    if request.auto:
        return _by_ways(spec, known, pool, fits)
    if len(request.roles) != 1:
        return SizedSpec(spec)  # it is unknown whose worker ran out of memory
    return _as_asked(spec, known, pool, fits)


def _count(held: int) -> int:
    """Return the number of GPUs of which something is held."""
    return max(1, held // GPU)


# ------------------------------------------------------------------------------------- chosen by Grus


def _by_ways(
    spec: Spec, known: MemoryHistory, pool: Sequence[GpuModel], fits: Fits
) -> SizedSpec | NoFittingSize:
    ways = spec.request.ways or (Way(1, 0),)
    refusals = []
    for way in sorted(ways, key=lambda way: -way.speed):
        found = _by_way(spec, way, known, pool, fits)
        if isinstance(found, SizedSpec):
            return found
        refusals.append(found.why)
    return NoFittingSize("; ".join(dict.fromkeys(refusals)))


def _by_way(
    spec: Spec, way: Way, known: MemoryHistory, pool: Sequence[GpuModel], fits: Fits
) -> SizedSpec | NoFittingSize:
    asked = spec.request.roles[0].replica
    kinds = allowed(asked, pool)
    most = max((kind.memory for kind in kinds), default=0)
    if kinds and not most:
        return _unmeasured(spec, way, fits)
    fell = fallen(known, way.gpus, way.how)
    need = _need(way, known, fell, most)
    name = " ".join(way.how) or "as it is"
    replica = None
    if fell < most >= need.memory:
        sliced = way.gpus == 1 and need.memory > 0
        replica = _slice(asked, need.memory) if sliced else _whole(asked, max(need.memory, fell + 1), kinds)
    if replica is None:
        least = f"more than {render_bytes_short(fell)}" if fell else render_bytes_short(need.memory)
        place = f"on {_gpus(way.gpus)}" if way.gpus == 1 else f"on each of {_gpus(way.gpus)}"
        limit = f"the largest GPU that it may have has {render_bytes_short(most)}"
        return NoFittingSize(f"{name} it needs {least} {place} ({need.because}), and {limit}")
    made, amount = _with(spec, way, replica), _amount(way, replica, need.memory)
    if refusal := fits(made):
        return NoFittingSize(f"{name} it takes {amount}, and so it {refusal}")
    return SizedSpec(made, f"{amount}{', ' + name if way.how else ''}: {need.because}")


def _unmeasured(spec: Spec, way: Way, fits: Fits) -> SizedSpec | NoFittingSize:
    """Choose a size in a pool that does not report how much memory its GPUs have."""
    made = _with(spec, way, replace(spec.request.roles[0].replica, gpus=1, share=0, gpu_memory=0))
    amount = _amount(way, made.request.roles[0].replica, 0)
    if refusal := fits(made):
        return NoFittingSize(f"it takes {amount}, and so it {refusal}")
    return SizedSpec(made, f"{amount}: nobody tells how much memory the GPUs here have")


class _Need(NamedTuple):
    memory: int
    because: str


def _need(way: Way, known: MemoryHistory, fell: int, most: int) -> _Need:
    """Return bytes on each GPU, more than the size that ran out of memory; 0 if unknown, so that all of a GPU
    is used.
    """
    peak, seen = _highest(known.enough, way), _highest(known.seen, way)
    if fell and (slice_ := _sufficed(known, way, fell, most)):
        return _Need(slice_, f"so much sufficed before, and {render_bytes_short(fell)} did not")
    if peak and not fell:
        return _Need(_roomy(peak, most), f"runs like it took up to {render_bytes_short(peak)}")
    if way.memory > fell and way.memory >= seen:
        return _Need(_rounded(way.memory, most), "by its estimate")
    if fell:
        grown = _larger(fell, most) if way.memory else 0
        return _Need(grown, f"{render_bytes_short(fell)} did not suffice")
    if seen and way.memory:
        return _Need(_larger(seen, most), f"a run like it took {render_bytes_short(seen)}")
    return _Need(0, "nobody could tell how much memory it takes")


def _with(spec: Spec, way: Way, replica: Replica) -> Spec:
    """Return the spec with this execution plan: a worker on each GPU."""
    role = replace(spec.request.roles[0], replicas=Range(way.gpus, way.gpus), replica=replica)
    request = replace(spec.request, roles=(role,), sizes=(), one_node=False, auto=False, ways=(), how=way.how)
    return replace(spec, request=request, launch=Launch.PER_GPU)


def _amount(way: Way, replica: Replica, memory: int) -> str:
    if replica.gpu_memory:
        return f"{render_bytes_short(memory)} of a GPU"
    each = f" with {render_bytes_short(memory)} or more{'' if way.gpus == 1 else ' each'}" if memory else ""
    return f"{'a whole GPU' if way.gpus == 1 else _gpus(way.gpus)}{each}"


# ------------------------------------------------------------------------------------------ as requested


def _as_asked(
    spec: Spec, known: MemoryHistory, pool: Sequence[GpuModel], fits: Fits
) -> SizedSpec | NoFittingSize:
    role = spec.request.roles[0]
    count = role.replicas.low * max(1, role.replica.gpus)
    fell = fallen(known, count, ())
    kinds = allowed(role.replica, pool)
    if not fell or min((given(role.replica, kind) for kind in kinds), default=fell + 1) > fell:
        return SizedSpec(spec)
    most = max(kind.memory for kind in kinds)
    if role.replica.gpus:
        made = _on_larger(spec, fell, kinds) or _on_largest(spec, fell, most) or _on_more(spec, known, fell)
    else:
        made = _larger_slice(spec, known, fell, most)
    if made is None:
        return NoFittingSize(
            f"{render_bytes_short(fell)} did not suffice, and the largest GPU that it may have has "
            f"{render_bytes_short(most)}: a smaller batch may fit, or a training that `gpu: auto` may split"
        )
    if refusal := fits(made.spec):
        return NoFittingSize(f"it would take {made.why}; but so it {refusal}")
    return made


def _larger_slice(spec: Spec, known: MemoryHistory, fell: int, most: int) -> SizedSpec | None:
    if fell >= most:
        return None
    role = spec.request.roles[0]
    memory = _sufficed(known, Way(1, 0), fell, most) or _larger(fell, most)
    amount = f"{render_bytes_short(memory)} of a GPU"
    why = f"{amount}: {render_bytes_short(fell)} did not suffice"
    return SizedSpec(_with_role(spec, replace(role, replica=_slice(role.replica, memory))), why)


def _on_larger(spec: Spec, fell: int, kinds: Sequence[GpuModel]) -> SizedSpec | None:
    role = spec.request.roles[0]
    replica = _whole(role.replica, fell + 1, kinds)
    if replica is None:
        return None
    why = f"GPUs of type {', '.join(replica.types)}: {render_bytes_short(fell)} did not suffice"
    return SizedSpec(_with_role(spec, replace(role, replica=replace(replica, gpus=role.replica.gpus))), why)


def _on_largest(spec: Spec, fell: int, most: int) -> SizedSpec | None:
    """If GPUs of one type differ in memory, request a single one by all of its memory."""
    role = spec.request.roles[0]
    if fell >= most or role.replicas != Range(1, 1) or role.replica.gpus != 1:
        return None
    why = f"all {render_bytes_short(most)} of a GPU: {render_bytes_short(fell)} did not suffice"
    return SizedSpec(_with_role(spec, replace(role, replica=_slice(role.replica, most))), why)


def _on_more(spec: Spec, known: MemoryHistory, fell: int) -> SizedSpec | None:
    """Add workers: then each has less to do, as far as the job divides its work among them."""
    role = spec.request.roles[0]
    short = max(one.gpus for one in known.short if one.memory >= fell and not one.how)
    workers = short // max(1, role.replica.gpus)
    low = next((n for n in spec.request.allowed if n > workers), None)
    if low is None:
        return None
    more = replace(role, replicas=Range(low, role.replicas.high))
    return SizedSpec(
        _with_role(spec, more), f"{counted(low, 'worker')} or more: with {workers} memory did not suffice"
    )


def _with_role(spec: Spec, role: Role) -> Spec:
    return replace(spec, request=replace(spec.request, roles=(role,)))


# --------------------------------------------------------------------------------------------- amounts


def given(replica: Replica, kind: GpuModel) -> int:
    """Return the bytes of each GPU that a replica may use on such a GPU."""
    return kind.memory if replica.gpus else replica.gpu_memory or kind.memory * replica.share // GPU


def fallen(known: MemoryHistory, gpus: int, how: tuple[str, ...]) -> int:
    """Return the most bytes per GPU that ran out of memory with so many GPUs or more, with this plan; 0 for
    none.
    """
    return max((one.memory for one in known.short if one.gpus >= gpus and one.how == how), default=0)


def _highest(peaks: Iterable[Peak], way: Way) -> int:
    return max((one.memory for one in peaks if (one.gpus, one.how) == (way.gpus, way.how)), default=0)


def _sufficed(known: MemoryHistory, way: Way, fell: int, most: int) -> int:
    """Return the smallest slice that is known to be enough; 0 for none."""
    slices = (one.slice for one in known.sufficed if (one.gpus, one.how) == (way.gpus, way.how))
    return min((slice_ for slice_ in slices if fell < slice_ <= most), default=0)


def _larger(fell: int, most: int) -> int:
    """Return the next size after one that ran out of memory; never more than the largest GPU has."""
    return min(_rounded(int(fell * GROWTH), most), most)


def _roomy(peak: int, most: int) -> int:
    """Return a peak with a margin, as far as there is room."""
    return max(peak, min(_rounded(int(peak * MARGIN), most), most))


def _rounded(memory: int, most: int) -> int:
    """Round up, but not beyond the largest GPU."""
    rounded = -(-memory // FINEST) * FINEST
    return rounded if rounded <= most else memory


def allowed(replica: Replica, pool: Sequence[GpuModel]) -> list[GpuModel]:
    """Return the kinds that it may have."""
    return [kind for kind in pool if not replica.types or kind.type in replica.types]


def _slice(replica: Replica, memory: int) -> Replica:
    return replace(replica, gpus=0, share=0, gpu_memory=memory)


def _whole(replica: Replica, memory: int, kinds: Sequence[GpuModel]) -> Replica | None:
    """Return one whole GPU of a type whose GPUs all have so much memory; None if there is none."""
    types = {kind.type for kind in kinds}
    enough = types - {kind.type for kind in kinds if kind.memory < memory}
    if not enough:
        return None
    named = replica.types if enough == types else tuple(sorted(enough))
    return replace(replica, gpus=1, share=0, gpu_memory=0, types=named)


def _gpus(count: int) -> str:
    return "one GPU" if count == 1 else f"{count} GPUs"
