"""Which pool a server has: the GPUs of this machine, or pretended ones."""

from dataclasses import dataclass
from pathlib import Path

from grus.model.errors import BadInput, DoesNotFit, Mistake
from grus.server.config import AUTO_POOL
from grus.telemetry.source import DeviceSource

SMALL = "1x2x8GB"
"""The pool of a machine without GPUs whose owner said nothing."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A source of devices, and a sentence for the operator about the choice ("" if it was theirs)."""

    source: DeviceSource
    notice: str = ""


def choose(text: str, remembered: Path) -> Pool:
    """The pool that the configuration names: `virtual 2x4x16GB`, `nvml`, or `auto`.

    `remembered` is the file with the shape of the last pretended pool: jobs that are there still run on it.
    """
    kind, _, shape = text.strip().partition(" ")
    if kind == "virtual" and shape:
        source = _virtual(shape)
        remembered.write_text(shape)
        return Pool(source)
    if kind == "nvml" and not shape:
        found = _nvml()
        if found is None:
            raise DoesNotFit(
                "No NVIDIA GPU was found on this machine (NVML), but the pool is to be made of them. "
                'Check the driver, or take pool = "virtual 2x4x16GB".'
            )
        return Pool(found)
    if text.strip() == AUTO_POOL:
        return _automatic(remembered)
    rule = 'must be "auto", "nvml" or "virtual NODESxGPUSxMEMORY", such as "virtual 2x4x16GB"'
    raise BadInput([Mistake("server.pool", rule, text)])


def _automatic(remembered: Path) -> Pool:
    source = _nvml()
    if source is not None:
        return Pool(source)
    try:
        shape = remembered.read_text().strip()
        source, since = _virtual(shape), ", as before"
    except (OSError, BadInput):  # there was none, or its file was cut off
        shape, source, since = SMALL, _virtual(SMALL), ""
    notice = (
        f"No NVIDIA GPU was found: the pool is virtual, {shape} (nodes x GPUs x memory){since}. "
        "Jobs are real processes, their GPUs are pretended. Choose another with --virtual or [server] pool."
    )
    return Pool(source, notice)


def _virtual(shape: str) -> DeviceSource:
    from grus.telemetry.virtual import VirtualSource

    return VirtualSource(shape)


def _nvml() -> DeviceSource | None:
    """The GPUs of this machine; None without a driver or without GPUs."""
    from grus.telemetry.nvml import find

    return find()
