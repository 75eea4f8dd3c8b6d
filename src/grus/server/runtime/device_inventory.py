"""The server's pool: the GPUs of this machine, or virtual ones.

A virtual pool is only made on request, and never for a state that has used real GPUs: a broken driver must
not turn a team's GPUs into simulated ones.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from grus.model.errors import BadInput, Conflict, DoesNotFit, Mistake
from grus.server.config import AUTO_POOL
from grus.server.runtime.state_check import DATABASE
from grus.store.durable_files import write_secret
from grus.telemetry.device_provider import DeviceSource
from grus.telemetry.tsdb.devices import recorded_devices

SMALL = "1x2x8GB"
"""The pool that earlier versions chose for a machine without GPUs."""
REAL = "nvml"
FILE, TELEMETRY = "pool", "telemetry.db"
_VIRTUAL = re.compile(r"node-\d+/gpu-\d+", re.ASCII)
OPTIONS = (
    "Install NVIDIA's driver (`nvidia-smi` must list the GPUs), or simulate GPUs: "
    "`grus up --virtual 2x4x16GB` (nodes x GPUs x memory)."
)


@dataclass(frozen=True, slots=True)
class PoolChoice:
    """A source of devices, and a sentence for the operator about the choice ("" if it was theirs)."""

    source: DeviceSource
    notice: str = ""
    shape: str = ""
    """Size of a virtual pool: nodes x GPUs x memory."""


@dataclass(frozen=True, slots=True)
class PreviousPool:
    """Pool of earlier starts on a state."""

    used: bool
    """True if a server ever started on it."""
    real: bool = False
    """True if it had real GPUs."""
    shape: str = ""
    """The shape of its virtual pool; empty where none was written down."""


def before(state: Path) -> PreviousPool:
    """Facts about earlier starts. Earlier versions wrote down only shapes: there the telemetry is asked."""
    shape = remembered(state)
    used = bool(shape) or (state / DATABASE).is_file()
    if shape == REAL:
        return PreviousPool(used, real=True)
    return PreviousPool(used, real=used and not shape and _measured_real(state / TELEMETRY), shape=shape)


def remembered(state: Path) -> str:
    """The choice of the last start: `nvml`, or the shape of a virtual pool; "" for none."""
    try:
        return (state / FILE).read_text().strip()
    except FileNotFoundError:
        return ""


def remember(pool: PoolChoice, state: Path) -> None:
    """Keep the choice for the next start."""
    write_secret(state / FILE, (pool.shape or REAL).encode())


def _measured_real(telemetry: Path) -> bool:
    """True if a device was measured that is none of a virtual pool (`node-0/gpu-0`)."""
    return any(_VIRTUAL.fullmatch(device) is None for device in recorded_devices(telemetry))


def choose(text: str, last: PreviousPool) -> PoolChoice:
    """The pool that the configuration names: `virtual 2x4x16GB`, `nvml`, or `auto`.

    Raises DoesNotFit without GPUs, and Conflict where a virtual pool would replace real GPUs.
    """
    kind, _, shape = text.strip().partition(" ")
    if kind == "virtual" and shape:
        source = _virtual(shape)
        if last.real:
            raise Conflict(
                "The jobs of this state use real GPUs; a virtual pool would lose them. Take another folder "
                f"for a virtual pool: `GRUS_HOME=~/grus-virtual grus up --virtual {shape}`."
            )
        return PoolChoice(source, shape=shape)
    if kind == REAL and not shape:
        return PoolChoice(_real(last))
    if text.strip() == AUTO_POOL:
        return _automatic(last)
    rule = 'must be "auto", "nvml" or "virtual NODESxGPUSxMEMORY", such as "virtual 2x4x16GB"'
    raise BadInput([Mistake("server.pool", rule, text)])


def _automatic(last: PreviousPool) -> PoolChoice:
    source = _nvml()
    if source is not None:
        return PoolChoice(source)
    if last.real or not last.used:
        raise _without_gpus(last)
    try:
        shape, source = last.shape, _virtual(last.shape)
    except BadInput:  # none was written down, or its file was cut off
        shape, source = SMALL, _virtual(SMALL)
    notice = (
        f"No NVIDIA GPU was found: the pool is virtual as before, {shape} (nodes x GPUs x memory). Jobs are "
        "real processes, their GPUs are simulated. Choose another with --virtual or [server] pool."
    )
    return PoolChoice(source, notice, shape)


def _real(last: PreviousPool) -> DeviceSource:
    found = _nvml()
    if found is None:
        raise _without_gpus(last)
    return found


def _without_gpus(last: PreviousPool) -> DoesNotFit:
    if last.real:
        return DoesNotFit(
            "No NVIDIA GPU was found on this machine, but the jobs of this state use its GPUs. Check the "
            "driver with `nvidia-smi`, then start again; jobs that run go on meanwhile."
        )
    return DoesNotFit(f"No NVIDIA GPU was found on this machine. {OPTIONS}")


def _virtual(shape: str) -> DeviceSource:
    from grus.telemetry.virtual_gpus import VirtualSource

    return VirtualSource(shape)


def _nvml() -> DeviceSource | None:
    """The GPUs of this machine; None without a driver or without GPUs."""
    from grus.telemetry.nvidia_nvml import find

    return find()
