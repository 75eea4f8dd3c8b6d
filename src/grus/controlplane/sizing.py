"""How much GPU memory a job is given, and in which way: by its estimate, by what its like have shown, and
never as little as has not sufficed before. Pure.

    auto      the fastest of its ways that some GPU of the pool can hold
    a slice   as large as asked, or larger than what fell short; at last a whole GPU, of a larger type
    GPUs      of any type asked for whose memory is larger than what fell short

What fell short with so many GPUs falls short with fewer of the same size, and with less memory. Each answer
asks for more than everything that fell short, so a job runs out of answers before it fails the same way
twice.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from grus.api.units import render_bytes_short
from grus.model.jobs import Launch, Phase, Spec
from grus.model.profiles import JobProfile
from grus.model.resources import GPU, Range, Replica, Role
from grus.model.ways import Shortage, Way, merged

GROWTH = 1.5
"""How much more than what fell short is tried next."""
MARGIN = 1.1
"""Room above the highest peak seen: runs differ, and peaks are looked at once a second."""
WATCHED = 10.0
"""Seconds for which a run must have been watched if its peak is to be believed over an estimate."""
FINEST = 10_000_000
"""Bytes to which sizes are rounded up, for people's sake."""

Fits = Callable[[Spec], str]
"""Why no state of the pool could run it; empty if one could."""


class Kind(NamedTuple):
    """GPUs of one type and size in the pool."""

    type: str
    memory: int


class Peak(NamedTuple):
    """Most bytes on one GPU that a run was seen to have with so many GPUs, held this way."""

    gpus: int
    how: tuple[str, ...]
    memory: int
    slice: int = 0
    """What it might have; 0 for all of a GPU."""


@dataclass(frozen=True, slots=True)
class Known:
    """What jobs like it have shown of their memory."""

    enough: tuple[Peak, ...] = ()
    """Of runs that succeeded and were watched for long enough: so much they took."""
    seen: tuple[Peak, ...] = ()
    """Of all others: at least so much is needed."""
    sufficed: tuple[Peak, ...] = ()
    """Slices with which runs succeeded, however long they were watched."""
    short: tuple[Shortage, ...] = ()


@dataclass(frozen=True, slots=True)
class Sized:
    """The spec with the size that was found, and why, in words; "" where it is as it was asked for."""

    spec: Spec
    why: str = ""


@dataclass(frozen=True, slots=True)
class Impossible:
    """Nothing of the pool would do; why, and what would, in words."""

    why: str


def known(profile: JobProfile | None, given: str, own: Iterable[Shortage] = ()) -> Known:
    """Out of a profile, of runs that were given the same; `own` is what fell short in the job itself."""
    if profile is None:
        return Known(short=merged(own))
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
    return Known(tuple(enough), tuple(seen), tuple(sufficed), merged([*theirs, *own]))


def size(spec: Spec, known: Known, pool: Sequence[Kind], fits: Fits) -> Sized | Impossible:
    """The spec with a size that may do. `spec.request` is what the user asked for."""
    request = spec.request
    if request.auto:
        return _by_ways(spec, known, pool, fits)
    if len(request.roles) != 1:
        return Sized(spec)  # whose worker fell short is not known
    return _as_asked(spec, known, pool, fits)


def _count(held: int) -> int:
    """GPUs of which something is held."""
    return max(1, held // GPU)


# --------------------------------------------------------------------------------------- left to Grus


def _by_ways(spec: Spec, known: Known, pool: Sequence[Kind], fits: Fits) -> Sized | Impossible:
    ways = spec.request.ways or (Way(1, 0),)
    refusals = []
    for way in sorted(ways, key=lambda way: -way.speed):
        found = _by_way(spec, way, known, pool, fits)
        if isinstance(found, Sized):
            return found
        refusals.append(found.why)
    return Impossible("; ".join(dict.fromkeys(refusals)))


def _by_way(spec: Spec, way: Way, known: Known, pool: Sequence[Kind], fits: Fits) -> Sized | Impossible:
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
        return Impossible(f"{name} it needs {least} {place} ({need.because}), and {limit}")
    made, amount = _with(spec, way, replica), _amount(way, replica, need.memory)
    if refusal := fits(made):
        return Impossible(f"{name} it takes {amount}, and so it {refusal}")
    return Sized(made, f"{amount}{', ' + name if way.how else ''}: {need.because}")


def _unmeasured(spec: Spec, way: Way, fits: Fits) -> Sized | Impossible:
    """In a pool that does not tell how much memory its GPUs have."""
    made = _with(spec, way, replace(spec.request.roles[0].replica, gpus=1, share=0, gpu_memory=0))
    amount = _amount(way, made.request.roles[0].replica, 0)
    if refusal := fits(made):
        return Impossible(f"it takes {amount}, and so it {refusal}")
    return Sized(made, f"{amount}: nobody tells how much memory the GPUs here have")


class _Need(NamedTuple):
    memory: int
    because: str


def _need(way: Way, known: Known, fell: int, most: int) -> _Need:
    """Bytes on each GPU, more than what fell short; 0 where nobody can tell and all of a GPU is taken."""
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
    """The spec held this way: a worker on each GPU."""
    role = replace(spec.request.roles[0], replicas=Range(way.gpus, way.gpus), replica=replica)
    request = replace(spec.request, roles=(role,), sizes=(), one_node=False, auto=False, ways=(), how=way.how)
    return replace(spec, request=request, launch=Launch.PER_GPU)


def _amount(way: Way, replica: Replica, memory: int) -> str:
    if replica.gpu_memory:
        return f"{render_bytes_short(memory)} of a GPU"
    each = f" with {render_bytes_short(memory)} or more{'' if way.gpus == 1 else ' each'}" if memory else ""
    return f"{'a whole GPU' if way.gpus == 1 else _gpus(way.gpus)}{each}"


# ----------------------------------------------------------------------------------- as it was asked for


def _as_asked(spec: Spec, known: Known, pool: Sequence[Kind], fits: Fits) -> Sized | Impossible:
    role = spec.request.roles[0]
    count = role.replicas.low * max(1, role.replica.gpus)
    fell = fallen(known, count, ())
    kinds = allowed(role.replica, pool)
    if not fell or min((given(role.replica, kind) for kind in kinds), default=fell + 1) > fell:
        return Sized(spec)
    most = max(kind.memory for kind in kinds)
    if role.replica.gpus:
        made = _on_larger(spec, fell, kinds) or _on_largest(spec, fell, most) or _on_more(spec, known, fell)
    else:
        made = _larger_slice(spec, known, fell, most)
    if made is None:
        return Impossible(
            f"{render_bytes_short(fell)} did not suffice, and the largest GPU that it may have has "
            f"{render_bytes_short(most)}: a smaller batch may fit, or a training that `gpu: auto` may split"
        )
    if refusal := fits(made.spec):
        return Impossible(f"it would take {made.why}; but so it {refusal}")
    return made


def _larger_slice(spec: Spec, known: Known, fell: int, most: int) -> Sized | None:
    if fell >= most:
        return None
    role = spec.request.roles[0]
    memory = _sufficed(known, Way(1, 0), fell, most) or _larger(fell, most)
    amount = f"{render_bytes_short(memory)} of a GPU"
    why = f"{amount}: {render_bytes_short(fell)} did not suffice"
    return Sized(_with_role(spec, replace(role, replica=_slice(role.replica, memory))), why)


def _on_larger(spec: Spec, fell: int, kinds: Sequence[Kind]) -> Sized | None:
    role = spec.request.roles[0]
    replica = _whole(role.replica, fell + 1, kinds)
    if replica is None:
        return None
    why = f"GPUs of type {', '.join(replica.types)}: {render_bytes_short(fell)} did not suffice"
    return Sized(_with_role(spec, replace(role, replica=replace(replica, gpus=role.replica.gpus))), why)


def _on_largest(spec: Spec, fell: int, most: int) -> Sized | None:
    """Where GPUs of one type differ, one alone can still be asked for by all of its memory."""
    role = spec.request.roles[0]
    if fell >= most or role.replicas != Range(1, 1) or role.replica.gpus != 1:
        return None
    why = f"all {render_bytes_short(most)} of a GPU: {render_bytes_short(fell)} did not suffice"
    return Sized(_with_role(spec, replace(role, replica=_slice(role.replica, most))), why)


def _on_more(spec: Spec, known: Known, fell: int) -> Sized | None:
    """With more workers each has less to do, as far as the job divides its work among them."""
    role = spec.request.roles[0]
    short = max(one.gpus for one in known.short if one.memory >= fell and not one.how)
    workers = short // max(1, role.replica.gpus)
    low = next((n for n in spec.request.allowed if n > workers), None)
    if low is None:
        return None
    more = replace(role, replicas=Range(low, role.replicas.high))
    return Sized(_with_role(spec, more), f"{low} workers or more: with {workers} memory did not suffice")


def _with_role(spec: Spec, role: Role) -> Spec:
    return replace(spec, request=replace(spec.request, roles=(role,)))


# --------------------------------------------------------------------------------------------- amounts


def given(replica: Replica, kind: Kind) -> int:
    """Bytes of each GPU that a replica may use on such a GPU."""
    return kind.memory if replica.gpus else replica.gpu_memory or kind.memory * replica.share // GPU


def fallen(known: Known, gpus: int, how: tuple[str, ...]) -> int:
    """Most bytes on each GPU that did not suffice with so many GPUs or more, held this way; 0 for none."""
    return max((one.memory for one in known.short if one.gpus >= gpus and one.how == how), default=0)


def _highest(peaks: Iterable[Peak], way: Way) -> int:
    return max((one.memory for one in peaks if (one.gpus, one.how) == (way.gpus, way.how)), default=0)


def _sufficed(known: Known, way: Way, fell: int, most: int) -> int:
    """The smallest slice that was seen to suffice; 0 for none."""
    slices = (one.slice for one in known.sufficed if (one.gpus, one.how) == (way.gpus, way.how))
    return min((slice_ for slice_ in slices if fell < slice_ <= most), default=0)


def _larger(fell: int, most: int) -> int:
    """The next size after one that fell short; never more than the largest GPU has."""
    return min(_rounded(int(fell * GROWTH), most), most)


def _roomy(peak: int, most: int) -> int:
    """A peak with room above it, as far as there is any."""
    return max(peak, min(_rounded(int(peak * MARGIN), most), most))


def _rounded(memory: int, most: int) -> int:
    """Up, but not for that beyond the largest GPU."""
    rounded = -(-memory // FINEST) * FINEST
    return rounded if rounded <= most else memory


def allowed(replica: Replica, pool: Sequence[Kind]) -> list[Kind]:
    """Those that it may have."""
    return [kind for kind in pool if not replica.types or kind.type in replica.types]


def _slice(replica: Replica, memory: int) -> Replica:
    return replace(replica, gpus=0, share=0, gpu_memory=memory)


def _whole(replica: Replica, memory: int, kinds: Sequence[Kind]) -> Replica | None:
    """One whole GPU of a type of which all have so much memory; None if there is none."""
    types = {kind.type for kind in kinds}
    enough = types - {kind.type for kind in kinds if kind.memory < memory}
    if not enough:
        return None
    named = replica.types if enough == types else tuple(sorted(enough))
    return replace(replica, gpus=1, share=0, gpu_memory=0, types=named)


def _gpus(count: int) -> str:
    return "one GPU" if count == 1 else f"{count} GPUs"
