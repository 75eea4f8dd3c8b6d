"""GPU types: their memory and their speed. Values only, no torch.

Memory, speed and bandwidth are those of the vendor's data sheets (NVIDIA; without sparsity, at the highest
clock). GPUs with GDDR6 whose error correction is on keep a sixteenth of their memory for it, and drivers keep
about a fiftieth: CUDA reports 12,622,168,064 bytes for an RTX 3060 of 12 GiB. The size of a context is on no
data sheet; it grows with the number of multiprocessors, and is given in round numbers.
"""

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches

from grus.model.errors import BadInput, Mistake
from grus.model.texts.units import BYTES_FORMS, parse_bytes, render_bytes

MIB = 1 << 20
GIB = 1 << 30
TERA = 10**12
GIGA = 10**9


@dataclass(frozen=True, slots=True)
class GpuKind:
    """One type. Sizes are in bytes, speeds in operations or bytes per second."""

    name: str
    memory: int
    """Bytes of it that a process can see."""
    context: int
    """Bytes that a process with PyTorch uses before its first tensor."""
    flops: float
    """Rate in single precision."""
    half_flops: float
    """Rate in half precision (fp16 or bf16) with sums in single precision."""
    bandwidth: float
    """Bandwidth to its own memory."""
    link: float
    """Bandwidth to another GPU of its node, in one direction: NVLink where the type has it, else PCIe."""

    @property
    def virtual(self) -> bool:
        """True if it is a virtual GPU."""
        return self.name.startswith("virtual-")

    @property
    def room(self) -> int:
        """Bytes for tensors and workspaces."""
        return max(0, self.memory - self.context)


def _kind(
    name: str,
    gigabytes: int,
    teraflops: tuple[float, float],
    speeds: tuple[int, int],
    *,
    corrected: bool = False,
    large: bool = False,
) -> GpuKind:
    """`teraflops`: single, half. `speeds`: GB/s to the memory, to another GPU."""
    memory = gigabytes * GIB * (15 if corrected else 16) // 16 * 49 // 50
    context = (512 if large else 400) * MIB
    return GpuKind(
        name,
        memory,
        context,
        *(float(value * TERA) for value in teraflops),
        *(float(value * GIGA) for value in speeds),
    )


CATALOGUE = (
    _kind("P100", 16, (9.3, 18.7), (732, 16)),
    _kind("V100", 32, (15.7, 125), (900, 150)),
    _kind("V100-16GB", 16, (15.7, 125), (900, 150)),
    _kind("T4", 16, (8.1, 65), (320, 16), corrected=True),
    _kind("A10", 24, (31.2, 125), (600, 32), corrected=True),
    _kind("A30", 24, (10.3, 165), (933, 100)),
    _kind("A40", 48, (37.4, 149.7), (696, 56), corrected=True),
    _kind("A6000", 48, (38.7, 154.8), (768, 56)),
    _kind("A100", 80, (19.5, 312), (2039, 300), large=True),
    _kind("A100-40GB", 40, (19.5, 312), (1555, 300), large=True),
    _kind("L4", 24, (30.3, 121), (300, 32), corrected=True),
    _kind("L40S", 48, (91.6, 362), (864, 32), corrected=True, large=True),
    _kind("RTX6000Ada", 48, (91.1, 364), (960, 32), large=True),
    _kind("H100", 80, (67, 989), (3350, 450), large=True),
    _kind("H200", 141, (67, 989), (4800, 450), large=True),
    _kind("B200", 180, (75, 2250), (8000, 900), large=True),
    _kind("GTX1080Ti", 11, (11.3, 11.3), (484, 16)),
    _kind("RTX2080Ti", 11, (13.4, 53.8), (616, 50)),
    _kind("RTX3060", 12, (12.7, 25.5), (360, 32)),
    _kind("RTX3070", 8, (20.3, 40.6), (448, 32)),
    _kind("RTX3080", 10, (29.8, 59.5), (760, 32)),
    _kind("RTX3090", 24, (35.6, 71), (936, 56)),
    _kind("RTX4060", 8, (15.1, 30.2), (272, 16)),
    _kind("RTX4070", 12, (29.1, 58.3), (504, 32)),
    _kind("RTX4080", 16, (48.7, 97.5), (717, 32)),
    _kind("RTX4090", 24, (82.6, 165.2), (1008, 32)),
    _kind("RTX5090", 32, (104.8, 209.5), (1792, 64)),
)

VIRTUAL_CONTEXT = 340_000_000
"""Bytes that a Python process uses once torch 2.13 is loaded and a first step is done (measured: 333 MB)."""
_VIRTUAL = re.compile(r"virtual[-: ]?(.+)", re.IGNORECASE)
_FILLERS = re.compile(r"nvidia|geforce|tesla|quadro|sxm\d?|pcie|hbm\de?|generation|[^a-z0-9]")
_AMOUNT = re.compile(r"[0-9.]+ ?[KMGTP]i?B?", re.IGNORECASE | re.ASCII)


def virtual(memory: int) -> GpuKind:
    """Return a virtual GPU: processes on this machine, with the speed of about one core."""
    return GpuKind(f"virtual-{render_bytes(memory)}", memory, VIRTUAL_CONTEXT, 5e10, 5e10, 1e10, 1e9)


def sized(memory: int) -> GpuKind:
    """A GPU of which only the memory is known: as fast as the known one that is nearest in memory."""
    like = min(CATALOGUE, key=lambda kind: (abs(kind.memory - memory), kind.flops))
    return replace(like, name=render_bytes(memory), memory=memory)


def find(text: str, field: str = "gpu") -> GpuKind:
    """The type that people (`RTX3060`, `24GB`, `virtual-2GB`) or a driver write; raises BadInput."""
    try:
        if pretended := _VIRTUAL.fullmatch(text.strip()):
            return virtual(_memory(pretended[1]))
        if _AMOUNT.fullmatch(text.strip()):
            return sized(_memory(text))
    except ValueError as error:
        raise BadInput([Mistake(field, str(error), text)]) from None
    found = _BY_NAME.get(_plain(text))
    if found is None:
        raise BadInput([Mistake(field, _unknown(text), text or "nothing")])
    return found


def known(text: str) -> GpuKind | None:
    """The type, if it is one of those known."""
    try:
        return find(text)
    except BadInput:
        return None


def _memory(text: str) -> int:
    memory = parse_bytes(text)
    if memory < 1:
        raise ValueError(f"must be above 0; {BYTES_FORMS}")
    return memory


def _unknown(text: str) -> str:
    near = get_close_matches(_plain(text), _BY_NAME, n=1, cutoff=0.75)
    meant = f"did you mean {_BY_NAME[near[0]].name}? " if near else ""
    names = ", ".join(kind.name for kind in CATALOGUE)
    return f"is not known; {meant}write its memory (24GB), virtual-4GB, or one of {names}"


def _plain(text: str) -> str:
    return _FILLERS.sub("", text.lower())


def _spellings(kind: GpuKind) -> set[str]:
    """Return the spellings with and without the letters that makers put before a number."""
    plain = _plain(kind.name)
    return {plain, plain.removeprefix("gtx"), plain.removeprefix("rtx")}


_ALSO = {"p10016gb": "P100", "v10032gb": "V100", "a10080gb": "A100", "h10080gb": "H100", "rtxa6000": "A6000"}
"""Spellings of drivers."""
_BY_NAME = {name: kind for kind in CATALOGUE for name in _spellings(kind)}
_BY_NAME |= {also: _BY_NAME[_plain(name)] for also, name in _ALSO.items()}
