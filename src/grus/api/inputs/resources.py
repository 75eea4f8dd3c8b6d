"""Resources of a job, as written under `resources`: GPUs, host CPU and memory, and how a size is chosen.

With `gpu: auto` Grus chooses the size. `ways` are the execution plans that an estimate has found; `grus
submit` writes them, users need not.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from grus.api.inputs.training_schema import strategy_words, target
from grus.api.parsing import fields as f
from grus.api.parsing.validation_errors import BrokenRule, Place, Strict, ValidFields
from grus.model.texts.units import MOST_GPUS, parse_bytes, parse_gpu

MOST_WAYS = 16
_SIZES = f.items(f.whole(1, MOST_GPUS), least=1, most=256)


class WayIn(Strict):
    """Execution plan of a training: so many GPUs with so much memory each."""

    gpus: Annotated[int, f.judged(f.whole(1, MOST_GPUS))] = 1
    """Number of GPUs. One: a slice of a GPU, or all of it. Several: so many whole GPUs, with a worker on
    each.
    """
    memory: Annotated[str | None, f.judged(f.optional(f.parsed(parse_bytes)))] = None
    """Memory that is enough on each GPU; none if unknown."""
    how: Annotated[str, f.judged(strategy_words)] = ""
    """Strategies that its workers switch on."""
    speed: Annotated[float, f.judged(f.number(1e-6, 1e6))] = 1.0
    """Speed relative to the other plans; the fastest is preferred."""


class ResourcesIn(Strict):
    """Resources of a job: GPUs in all, host CPU and memory per GPU."""

    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("gpus", "num_gpus", "ngpus", "gpu_count"), "gpu"),
        **dict.fromkeys(("mem", "ram", "host_memory"), "memory"),
        **dict.fromkeys(("cpus", "cores"), "cpu"),
        **dict.fromkeys(("gpu_memory", "vram"), "write a slice by memory as gpu: 12GB"),
        **dict.fromkeys(("type", "gpu_type"), "write the GPU type before the number, as gpu: A100:4"),
        "replicas": "it belongs to a role, beside its resources",
    }

    gpu: f.Gpu = 1
    """GPUs: 4, 2..8, 0.5, 12GB, auto, A100:2..8; 0 for none."""
    sizes: Annotated[
        tuple[int, ...] | None,
        f.judged(f.optional(_SIZES)),
    ] = None
    """Sizes that an elastic job can use; no others."""
    mixed: f.Flag = False
    """Allow GPUs of different types; a gang is as fast as its slowest GPU."""
    cpu: Annotated[
        float | None,
        f.judged(f.optional(f.number(0.01, 4096))),
    ] = None
    """Host cores per GPU (per replica if gpu is 0 or a slice)."""
    memory: f.HostMemory = None
    """Host memory per GPU (per replica if gpu is 0 or a slice): 32GB."""
    share: Annotated[str | None, f.judged(f.optional(f.choice(("auto",))))] = None
    """GPU sharing: with auto, its one GPU may be shared with another job that allows it, if both together
    gain.
    """
    estimate: Annotated[str | None, f.judged(f.optional(target))] = None
    """Function that estimates the job's memory before submission; with gpu: auto."""
    ways: tuple[WayIn, ...] | None = None
    """Execution plans that were found; with gpu: auto."""

    def across(self, sound: ValidFields) -> list[BrokenRule]:
        if not sound("gpu") or parse_gpu(self.gpu).auto:
            if self.ways is not None and len(self.ways) > MOST_WAYS:
                return [BrokenRule(("ways",), f"must have at most {MOST_WAYS} items")]
            return []
        rule = "is for gpu: auto; here the size is given"
        given = (("estimate", self.estimate), ("ways", None if self.ways is None else len(self.ways)))
        return [BrokenRule((name,), rule) for name, value in given if value is not None]


def size_rules(
    resources: ResourcesIn, low: int, high: int, at: tuple[str, ...], ranged: str
) -> list[BrokenRule]:
    """Check `sizes`: it narrows a range, so it needs one and must stay inside it."""
    if resources.sizes is None:
        return []
    at = (*at, "sizes")
    if low == high:
        return [BrokenRule(at, f"needs a range in {ranged}, such as 2..8", list(resources.sizes))]
    broken = [
        BrokenRule((*at, index), f"must be inside the range {low}..{high}", size)
        for index, size in enumerate(resources.sizes)
        if not low <= size <= high
    ]
    if len(set(resources.sizes)) != len(resources.sizes):
        broken.append(BrokenRule(at, "names a size twice", list(resources.sizes)))
    return broken


def auto_rules(resources: ResourcesIn, at: Place, launch: str | None, *, trains: bool) -> list[BrokenRule]:
    """Check a job that leaves its size to Grus; `trains` means with a section of its own."""
    broken = []
    if trains and resources.estimate is not None:
        rule = "is for a job with run: what stands under train is estimated by itself"
        broken.append(BrokenRule((*at, "estimate"), rule, resources.estimate))
    several = any(way.gpus > 1 for way in resources.ways or ())
    if several and launch in ("once", "per-node"):
        rule = "must be per-gpu for a way with several GPUs: each has a worker of its own"
        broken.append(BrokenRule(("launch",), rule, launch))
    return broken
