"""Right-sizing advice: one sentence if a running job holds more GPUs than it uses. Pure; advice, never an
action.

The most reliable sign comes first: its speed with fewer GPUs, then the number of its GPUs at work at all,
then their joint utilization. No advice is given on a job that was not watched long enough, idles or hangs:
that is reported separately.
"""

import math
from collections.abc import Sequence

from grus.model.activity_labels import Tag, TrainingStage, WorkloadKind
from grus.model.jobs import Job, Phase
from grus.model.profiles import Speed
from grus.model.resources import GPU
from grus.model.texts.units import render_bytes_short, render_percent
from grus.patterns.gpus_at_work import at_work

WATCHED = 300.0
"""Minimum seconds of a run before advice."""
NEARLY = 0.9
"""Part of its speed that a job must keep on fewer GPUs for these to be enough."""
LOW = 0.5
"""Utilization below which GPUs are said to wait."""
HALF = 0.45
"""Part of a GPU's time and memory up to which half of it is enough."""


def advice(
    job: Job,
    tag: Tag | None,
    now: float,
    *,
    used: Sequence[float] = (),
    speeds: Sequence[Speed] = (),
    memory: int | None = None,
) -> str:
    """Advise a smaller request, with the reason; "" without evidence for one.

    `used`: mean utilization of each of its GPUs; `speeds`: speeds of similar jobs by size on this type;
    `memory`: bytes of one of its GPUs.
    """
    if tag is None or not _settled(job, tag, now):
        return ""
    seats = job.staying
    whole = sum(len(seat.devices) for seat in seats if seat.share == GPU)
    if whole == 1 and job.held == GPU:
        return _half(job, tag, memory)
    if whole < 2 or whole * GPU != job.held:
        return ""
    return _as_fast(job, whole, speeds) or _not_at_work(whole, used) or _waiting(whole, tag)


def _settled(job: Job, tag: Tag, now: float) -> bool:
    if job.phase is not Phase.RUNNING or job.started_at is None or now - job.started_at < WATCHED:
        return False
    busy = tag.kind is not WorkloadKind.IDLE and tag.stage is not TrainingStage.START_UP
    return busy and tag.hung_since is None and tag.live(now)


def _as_fast(job: Job, whole: int, speeds: Sequence[Speed]) -> str:
    """Advise by the speed with fewer GPUs. The size of an elastic job is chosen by that already."""
    if job.spec.request.elastic is not None:
        return ""
    best: dict[int, float] = {}
    for one in speeds:
        best[one.gpus] = max(best.get(one.gpus, 0.0), one.throughput)
    now = best.get(whole)
    fewer = [size for size in sorted(best) if size < whole and now and best[size] >= NEARLY * now]
    if not fewer or now is None:
        return ""
    part = render_percent(round(best[fewer[0]] / now, 2))
    return f"it holds {whole} GPUs, and ran {part} as fast on {fewer[0]}: `gpu: {fewer[0]}` would do"


def _not_at_work(whole: int, used: Sequence[float]) -> str:
    working = at_work(used)
    if len(used) != whole or not 0 < working < whole:
        return ""
    each = ", ".join(render_percent(round(one, 2)) for one in sorted(used, reverse=True))
    verb = "is" if working == 1 else "are"
    return f"it holds {whole} GPUs and {working} {verb} at work ({each}): `gpu: {working}` would do"


def _waiting(whole: int, tag: Tag) -> str:
    if tag.utilisation is None or tag.utilisation >= LOW:
        return ""
    enough = max(1, math.ceil(tag.utilisation * whole / NEARLY))
    if enough >= whole:
        return ""
    used = render_percent(round(tag.utilisation, 2))
    return f"its {whole} GPUs are busy {used} of the time: try `gpu: {enough}`, and compare its speed"


def _half(job: Job, tag: Tag, memory: int | None) -> str:
    if tag.utilisation is None or tag.peak_memory is None or not memory:
        return ""
    if tag.utilisation > HALF or tag.peak_memory > HALF * memory or len(job.spec.request.roles) > 1:
        return ""
    used = render_percent(round(tag.utilisation, 2))
    most = f"{render_bytes_short(tag.peak_memory)} of its {render_bytes_short(memory)}"
    return f"it uses {used} of its GPU and at most {most}: `gpu: 0.5` would do"
