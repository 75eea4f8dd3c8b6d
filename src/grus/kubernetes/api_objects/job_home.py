"""Home of a job in a cluster: the object that users see of it, and that owns its pods and services."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Home:
    """One GpuJob (or, for a plain pod, that pod)."""

    namespace: str
    name: str
    uid: str = ""
    """Empty where nothing is to be owned by it."""
    kind: str = "GpuJob"
    """`Pod` for a plain pod, which is its own and only worker."""
