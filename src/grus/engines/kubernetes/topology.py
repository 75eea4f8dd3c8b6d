"""Node topology: GPU types, memory and location from a node's labels, in the scheduler's terms. Pure.

| what | labels, the first that is there | written by |
| --- | --- | --- |
| type | grus.dev/gpu-type, nvidia.com/gpu.product, amd.com/gpu.product-name, … | people, GPU Feature Discovery, AMD's labeller, clouds |
| memory of one GPU | grus.dev/gpu-memory (16GB), nvidia.com/gpu.memory (MiB), amd.com/gpu.vram (64G) | the same |
| NVLink inside the node | grus.dev/nvlink, else the type's name | people |
| zone | topology.kubernetes.io/zone, failure-domain.beta.kubernetes.io/zone | clouds |
| rack | topology.kubernetes.io/rack, nvidia.com/gpu.clique, network.topology.nvidia.com/…, clouds' own | people, GPU operator, Topograph, clouds |

Nodes that NVLink joins (one clique) are nearer than a rack: they count as one.
"""  # noqa: E501 - a table

import re
from collections.abc import Mapping

from grus.engines.kubernetes.quantities import amount

ZONE = "topology.kubernetes.io/zone"
RACK = "topology.kubernetes.io/rack"
NVLINK = "grus.dev/nvlink"
_ZONES = (ZONE, "failure-domain.beta.kubernetes.io/zone")
_RACKS = (
    RACK,
    "nvidia.com/gpu.clique",
    "network.topology.nvidia.com/accelerator",
    "network.topology.nvidia.com/leaf",
    "cloud.google.com/gce-topology-subblock",
    "topology.k8s.aws/network-node-layer-3",
)
_TYPES = (
    "grus.dev/gpu-type",
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
)
_JOINED = re.compile(r"SXM|NVL|HGX|DGX|GB[23]00|H[12]00-\d+GB-HBM|MI[23]\d\d", re.IGNORECASE)
"""GPU types that all reach each other within a node."""
_FULL_SPEED = 80e9
"""Bytes of a GPU with speed 1, where nothing better is known than its memory."""


def gpu_type(labels: Mapping[str, str], resource: str) -> str:
    found = next((labels[name] for name in _TYPES if labels.get(name)), "")
    # GPUs that a device plugin time-slices are of the same type all the same.
    return found.removesuffix("-SHARED") or resource.partition("/")[0].partition(".")[0] or "gpu"


def gpu_memory(labels: Mapping[str, str]) -> int:
    """Return the bytes of one GPU; 0 if no label gives them."""
    if "grus.dev/gpu-memory" in labels:
        return amount(labels["grus.dev/gpu-memory"].removesuffix("B").removesuffix("b"))
    if "nvidia.com/gpu.memory" in labels:
        return amount(labels["nvidia.com/gpu.memory"]) << 20
    vram = labels.get("amd.com/gpu.vram") or labels.get("beta.amd.com/gpu.vram") or "0"
    return amount(vram if vram.endswith("i") or vram.isdigit() else f"{vram}i")


def speed(memory: int) -> float:
    return memory / _FULL_SPEED if memory else 1.0


def joined(labels: Mapping[str, str], kind: str) -> bool:
    """Return whether all GPUs of the node reach each other by NVLink (or an equivalent)."""
    said = labels.get(NVLINK)
    return said == "true" if said else bool(_JOINED.search(kind))


def placed(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels, with zone and rack where the scheduler looks for them."""
    found = dict(labels)
    for name, sources in ((ZONE, _ZONES), (RACK, _RACKS)):
        value = next((labels[source] for source in sources if labels.get(source)), None)
        if value is not None:
            found[name] = value
    return found
