"""Meaning of the fields of NVIDIA's DCGM, for both sources: exporter's text or Prometheus.

Three are never mixed up: MEM_COPY_UTIL is time of the memory interface, FB_USED is allocated memory,
SM_ACTIVE is work of the compute units. A blank value is absent, never 0. On a GPU that is partitioned (MIG),
utilization is that of each instance's own engine; power, temperature and errors are the whole GPU's.
"""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from grus.model.identifiers import DeviceId, NodeId
from grus.telemetry.counter_rates import rate
from grus.telemetry.samples import Fault, Measure, Sample, Subject

GPU_UTIL = "DCGM_FI_DEV_GPU_UTIL"
MEM_COPY_UTIL = "DCGM_FI_DEV_MEM_COPY_UTIL"
FB_USED = "DCGM_FI_DEV_FB_USED"
POWER = "DCGM_FI_DEV_POWER_USAGE"
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP"
XID = "DCGM_FI_DEV_XID_ERRORS"
ENGINE_ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
SM_ACTIVE = "DCGM_FI_PROF_SM_ACTIVE"
DRAM_ACTIVE = "DCGM_FI_PROF_DRAM_ACTIVE"
FIELDS = frozenset(
    {
        GPU_UTIL,
        MEM_COPY_UTIL,
        FB_USED,
        POWER,
        ENERGY,
        TEMPERATURE,
        XID,
        ENGINE_ACTIVE,
        SM_ACTIVE,
        DRAM_ACTIVE,
    }
)
OF_THE_WHOLE = frozenset({POWER, ENERGY, TEMPERATURE, XID})
"""Fields that are reported for each instance of a partitioned GPU, though there is only one value."""
BLANK = float(1 << 47)
"""DCGM's values for "not known" are numbers from here on (dcgm_structs.h: DCGM_FP64_BLANK and above)."""
_MIB = 1 << 20
_CUSTOM = 600.0
"""Seconds after which a field that a GPU used to tell is no longer waited for (its mode was changed)."""


class Value(NamedTuple):
    """One field of one GPU (or instance) at one moment."""

    subject: Subject
    at: float
    field: str
    value: float
    holder: str = ""


def place(field: str, node: NodeId, device: DeviceId, instance: str) -> Subject:
    """Return the subject of the value."""
    return Subject(node, device, "" if field in OF_THE_WHOLE else instance)


def device(labels: Mapping[str, str], node: NodeId) -> DeviceId | None:
    """The GPU's UUID; in its absence, its number on the node. None if the labels name no GPU."""
    uuid = labels.get("UUID") or labels.get("uuid") or ""
    if uuid:
        return DeviceId(uuid)
    number = labels.get("gpu", "")
    return DeviceId(f"{node}/gpu-{number}") if number else None


class Meaning:
    """Turns fields into samples. Remembers, of each subject, what it must to read the next values rightly."""

    def __init__(self) -> None:
        self._told: dict[Subject, dict[str, float]] = {}
        """Time at which each had which fields: a value that is missing once is not replaced by a related
        one.
        """
        self._energy: dict[Subject, tuple[float, float]] = {}
        self._xid: dict[Subject, int] = {}

    def read(self, values: Iterable[Value]) -> tuple[list[Sample], list[Fault]]:
        """Samples and new faults, in the order of time. No value may be older than those read before."""
        moments: dict[tuple[float, Subject], dict[str, float]] = {}
        holders: dict[tuple[float, Subject], str] = {}
        for one in values:
            if one.value < BLANK:
                moments.setdefault((one.at, one.subject), {})[one.field] = one.value
                if one.holder and one.field not in OF_THE_WHOLE:
                    holders[one.at, one.subject] = one.holder
        samples, faults = [], []
        for key in sorted(moments, key=lambda key: key[0]):
            at, subject = key
            fields = moments[key]
            self._told.setdefault(subject, {}).update(dict.fromkeys(fields, at))
            measured = self._measures(subject, at, fields)
            if measured:
                samples.append(Sample(subject, at, measured, holders.get(key, "")))
            faults += self._faults(subject, at, fields)
        return samples, faults

    def forget(self, subject: Subject) -> None:
        """It has been gone for long."""
        for table in (self._told, self._energy, self._xid):
            table.pop(subject, None)

    def _measures(self, subject: Subject, at: float, fields: Mapping[str, float]) -> dict[Measure, float]:
        found = {
            Measure.UTILISATION: self._either(subject, at, fields, GPU_UTIL, ENGINE_ACTIVE),
            Measure.MEMORY_TIME: self._either(subject, at, fields, MEM_COPY_UTIL, DRAM_ACTIVE),
            Measure.ACTIVE: _part(fields.get(SM_ACTIVE)),
            Measure.MEMORY: fields[FB_USED] * _MIB if FB_USED in fields else None,
            Measure.POWER: self._power(subject, at, fields),
            Measure.TEMPERATURE: fields.get(TEMPERATURE),
        }
        return {measure: value for measure, value in found.items() if value is not None}

    def _either(
        self, subject: Subject, at: float, fields: Mapping[str, float], percent: str, ratio: str
    ) -> float | None:
        """The field in percent; the ratio for an instance, or for a GPU that does not tell the first."""
        if subject.instance or not self._tells(subject, percent, at):
            return _part(fields.get(ratio))
        return _part(fields[percent] / 100) if percent in fields else None

    def _power(self, subject: Subject, at: float, fields: Mapping[str, float]) -> float | None:
        """Watts; for a GPU that does not tell them, the mean since the energy counter was last read."""
        mean = None
        if ENERGY in fields:
            before = self._energy.get(subject)
            self._energy[subject] = (at, fields[ENERGY])
            if before is not None:
                mean = rate(before[1] / 1000, fields[ENERGY] / 1000, at - before[0])
        return fields.get(POWER) if self._tells(subject, POWER, at) else mean

    def _tells(self, subject: Subject, field: str, at: float) -> bool:
        return at - self._told[subject].get(field, -math.inf) <= _CUSTOM

    def _faults(self, subject: Subject, at: float, fields: Mapping[str, float]) -> list[Fault]:
        """The last error sticks: only one that follows another (or none) is new. The first may be old."""
        if XID not in fields:
            return []
        code = int(fields[XID])
        before = self._xid.get(subject)
        self._xid[subject] = code
        return [Fault(subject, at, code)] if code and before is not None and code != before else []


def _part(value: float | None) -> float | None:
    return None if value is None else min(1.0, max(0.0, value))
