"""Start options of a controller. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grus.kubernetes.api_objects.job_namespaces import RESTRICTED
from grus.scheduler.queues.policies import GRUS

SYSTEM = "grus-system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Seconds throughout."""

    state: Path
    """Folder for what outlives objects (history, users, logs). It may be empty at every start."""
    image: str
    """Grus's own: prepares the pods of jobs, and runs jobs that name no image."""
    namespace: str = SYSTEM
    """The controller's own: its Lease and reservations. Jobs have namespaces of their own."""
    resource: str = "nvidia.com/gpu"
    identity: str = ""
    """Identity of this process among the candidates; empty to generate one."""
    policy: str = GRUS.name
    lease: int = 15
    """Seconds for which a silent leader is considered alive."""
    renew: float = 5.0
    start_timeout: float = 600.0
    """A gang that is not up by then is undone: images may have to come from far away."""
    forecasts: bool = False
    """True if starts and ends are forecast; costs a process of its own."""
    allowed_pod_fields: tuple[str, ...] = ()
    """Fields of `pod` that jobs may set besides `api.inputs.pod_allow_list`: `PATH`, or `QUEUE:PATH`."""
    pod_security: str = RESTRICTED
    """The Pod Security level of namespaces that are made for jobs."""
    template: Mapping[str, Any] = field(default_factory=dict)
    """Part of a pod, laid under every worker's own."""
