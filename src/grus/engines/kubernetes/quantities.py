"""Kubernetes quantities ("500m", "16Gi", "1e3"), and the total requests of a pod. Pure."""

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

_FACTORS = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}


def amount(value: object, scale: int = 1) -> int:
    """Return the amount in units of 1/`scale`, rounded up as Kubernetes does; 0 for an unreadable one."""
    text = str(value)
    unit = text[-2:] if text[-2:] in _FACTORS else text[-1:] if text[-1:] in _FACTORS else ""
    try:
        number = Decimal(text.removesuffix(unit)) * _FACTORS.get(unit, Decimal(1)) * scale
        return int(number.to_integral_value(rounding="ROUND_CEILING"))
    except (InvalidOperation, OverflowError, ValueError):
        return 0


def asked(pod: Mapping[str, Any], resource: str, scale: int = 1) -> int:
    """Return the pod's request of a resource: its containers'
    sum, or its largest init container if greater.
    """
    spec = pod.get("spec") or {}
    together = sum(_each(spec.get("containers") or (), resource, scale))
    first = max(_each(spec.get("initContainers") or (), resource, scale), default=0)
    return max(together, first) + amount((spec.get("overhead") or {}).get(resource, 0), scale)


def _each(containers: Iterable[Mapping[str, Any]], resource: str, scale: int) -> Iterable[int]:
    for container in containers:
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        yield amount(requests.get(resource, limits.get(resource, 0)), scale)
