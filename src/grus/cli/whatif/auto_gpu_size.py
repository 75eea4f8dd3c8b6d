"""`gpu: auto` before a job is handed in: its training is estimated for the GPUs of the pool.

The user's code runs in a child process with limits; nothing here imports it, or torch. What cannot be
estimated is submitted all the same: the size is then found from earlier runs, else it is one whole GPU.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from grus.cli.render.output import hint, size
from grus.cli.render.progress import told
from grus.model.errors import BadInput, GrusError, Mistake

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grus.api.inputs.job_schema import JobIn
    from grus.api.wire_types.pool import NodeOut
    from grus.estimation.gpus import GpuKind
    from grus.sdk.client import Client

CHILD = "grus.elastic.split.plan_candidates:find"
LONGEST = 180.0
"""Seconds that an estimate may take before a job is submitted without."""
ELSE = "it gets what runs like it took, else one whole GPU"


def with_ways(client: "Client", jobs: "Sequence[JobIn]") -> "list[JobIn]":
    """The jobs; those that leave their size to Grus have the ways that were found. Raises BadInput."""
    if not any(map(_wants, jobs)):
        return list(jobs)
    nodes = client.nodes()
    pretended = _pretended(client)
    return [_sized(job, nodes, pretended) if _wants(job) else job for job in jobs]


def _wants(job: "JobIn") -> bool:
    from grus.model.texts.units import parse_gpu

    return job.roles is None and job.resources.ways is None and parse_gpu(job.resources.gpu).auto


def _pretended(client: "Client") -> bool:
    """Return whether the pool's GPUs are virtual, even if they report real types."""
    try:
        return client.status().mechanisms.get("gpus", "").startswith("virtual")
    except GrusError:  # a cluster: it has no such page, and no such GPUs
        return False


def _sized(job: "JobIn", nodes: "Sequence[NodeOut]", pretended: bool) -> "JobIn":
    name = job.name or "the job"
    if job.train is None and job.resources.estimate is None:
        hint(f"{name}: nothing to estimate by (resources: {{estimate: train.py:make}}); {ELSE}")
        return job
    pool = _pool(job, nodes, pretended)
    if not pool:
        hint(f"{name}: not estimated, since no GPU of the pool is of a type that it may have; {ELSE}")
        return job
    try:
        found = _ask(job, pool)
    except GrusError as error:
        hint(f"{name}: could not be estimated; {ELSE}\n  {error}")
        return job
    if found["mistakes"]:
        raise BadInput([Mistake(**one) for one in found["mistakes"]])
    hint(f"{name}: {words(found)}")
    return _with(job, found["ways"])


def _pool(job: "JobIn", nodes: "Sequence[NodeOut]", pretended: bool) -> "list[tuple[GpuKind, int]]":
    """Types of GPU that the job may have, and how many of each there are."""
    from grus.model.texts.units import parse_gpu

    types = parse_gpu(job.resources.gpu).types
    count: dict[tuple[str, int], int] = {}
    for gpu in (gpu for node in nodes for gpu in node.gpus):
        if gpu.memory and (not types or gpu.type in types):
            count[gpu.type, gpu.memory] = count.get((gpu.type, gpu.memory), 0) + 1
    return [(_kind(*key, pretended), number) for key, number in count.items()]


def _kind(type_: str, memory: int, pretended: bool) -> "GpuKind":
    from dataclasses import replace

    from grus.estimation.gpus import known, sized, virtual

    if pretended:
        return virtual(memory)
    found = known(type_)
    return sized(memory) if found is None else replace(found, memory=memory)


def _ask(job: "JobIn", pool: "list[tuple[GpuKind, int]]") -> dict[str, Any]:
    from dataclasses import asdict

    from grus.estimation.estimate_subprocess import Limits, run

    section = None if job.train is None else job.train.model_dump(mode="json", exclude_defaults=True)
    what = job.resources.estimate or (job.train and (job.train.make or job.train.model)) or "train"
    arguments = {
        "section": section,
        "target": job.resources.estimate or "",
        "pool": [{"gpu": asdict(kind), "count": count} for kind, count in pool],
    }
    limits = Limits(seconds=LONGEST)
    with told() as tell:
        return run(CHILD, arguments, what=what, folder=Path(job.workdir), limits=limits, tell=tell)  # type: ignore[no-any-return]  # JSON


def _with(job: "JobIn", ways: list[dict[str, Any]]) -> "JobIn":
    from grus.api.inputs.resources import WayIn

    made = tuple(
        WayIn(gpus=way["gpus"], memory=f"{way['memory']}B", how=" ".join(way["how"]), speed=way["speed"])
        for way in ways
    )
    return job.model_copy(update={"resources": job.resources.model_copy(update={"ways": made})})


def words(found: dict[str, Any]) -> str:
    """Summarize an automatic size for people: the first execution plan, and the savings of the others."""
    first, *others = found["estimates"]
    held = f" ({' '.join(first['how'])})" if first["how"] else ""
    text = f"a batch of {found['batch']} takes about {size(first['estimate'])} of a GPU{held}"
    text += f", at most {size(first['upper'])}"
    for one in others:
        text += f"; with {' '.join(one['how'])} at most {size(one['upper'])}"
    return "; ".join([text, *found["notes"]])
