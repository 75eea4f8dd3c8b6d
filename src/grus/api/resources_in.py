"""What a job takes, as written under `resources`: GPUs, host CPU and memory, and how a size is found.

With `gpu: auto` Grus chooses the size. `ways` are the possibilities that an estimate has found; `grus submit`
writes them, people need not.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from grus.api import fields as f
from grus.api.rules import Broken, Place, Sound, Strict
from grus.api.train_in import strategy_words, target
from grus.api.units import MOST_GPUS, parse_bytes, parse_gpu

MOST_WAYS = 16
_SIZES = f.items(f.whole(1, MOST_GPUS), least=1, most=256)


class WayIn(Strict):
    """One way to hold a training: so many GPUs with so much memory each."""

    gpus: Annotated[int, f.judged(f.whole(1, MOST_GPUS))] = 1
    """One: a slice of a GPU, or all of it. Several: so many whole GPUs, with a worker on each."""
    memory: Annotated[str | None, f.judged(f.optional(f.parsed(parse_bytes)))] = None
    """What suffices on each GPU; none where nobody could tell."""
    how: Annotated[str, f.judged(strategy_words)] = ""
    """Strategies that its workers switch on."""
    speed: Annotated[float, f.judged(f.number(1e-6, 1e6))] = 1.0
    """Relative to the other ways; the fastest is preferred."""


class ResourcesIn(Strict):
    """What the job takes: GPUs in all, host CPU and memory per GPU."""

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
    """The only sizes that an elastic job can use."""
    mixed: f.Flag = False
    """Let its GPUs be of unlike types; a gang is as fast as its slowest GPU."""
    cpu: Annotated[
        float | None,
        f.judged(f.optional(f.number(0.01, 4096))),
    ] = None
    """Host cores per GPU (per replica where gpu is 0 or a slice)."""
    memory: f.HostMemory = None
    """Host memory per GPU likewise: 32GB."""
    share: Annotated[str | None, f.judged(f.optional(f.choice(("auto",))))] = None
    """auto: its one GPU may be shared with another job that allows it, where that pays for both together."""
    estimate: Annotated[str | None, f.judged(f.optional(target))] = None
    """With gpu: auto, the function by which the job's memory is estimated before it is submitted."""
    ways: tuple[WayIn, ...] | None = None
    """With gpu: auto, the ways that were found to hold it."""

    def across(self, sound: Sound) -> list[Broken]:
        if not sound("gpu") or parse_gpu(self.gpu).auto:
            if self.ways is not None and len(self.ways) > MOST_WAYS:
                return [Broken(("ways",), f"must have at most {MOST_WAYS} items")]
            return []
        rule = "is for gpu: auto; here the size is given"
        given = (("estimate", self.estimate), ("ways", None if self.ways is None else len(self.ways)))
        return [Broken((name,), rule) for name, value in given if value is not None]


def size_rules(resources: ResourcesIn, low: int, high: int, at: tuple[str, ...], ranged: str) -> list[Broken]:
    """`sizes` narrows a range: it needs one, and stays inside it."""
    if resources.sizes is None:
        return []
    at = (*at, "sizes")
    if low == high:
        return [Broken(at, f"needs a range in {ranged}, such as 2..8", list(resources.sizes))]
    broken = [
        Broken((*at, index), f"must be inside the range {low}..{high}", size)
        for index, size in enumerate(resources.sizes)
        if not low <= size <= high
    ]
    if len(set(resources.sizes)) != len(resources.sizes):
        broken.append(Broken(at, "names a size twice", list(resources.sizes)))
    return broken


def auto_rules(resources: ResourcesIn, at: Place, launch: str | None, *, trains: bool) -> list[Broken]:
    """Rules for a job that leaves its size to Grus; `trains` with a section of its own."""
    broken = []
    if trains and resources.estimate is not None:
        rule = "is for a job with run: what stands under train is estimated by itself"
        broken.append(Broken((*at, "estimate"), rule, resources.estimate))
    several = any(way.gpus > 1 for way in resources.ways or ())
    if several and launch in ("once", "per-node"):
        rule = "must be per-gpu for a way with several GPUs: each has a worker of its own"
        broken.append(Broken(("launch",), rule, launch))
    return broken
