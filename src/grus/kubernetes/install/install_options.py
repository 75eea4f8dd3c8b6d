"""Settings of one installation, and the labels that all its objects share. Pure."""

from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

NAMESPACE = "grus-system"
IMAGE = "grus:0.1.0"
PORT = 7600
PROBES = 8081
HOME = "/var/lib/grus"
KUBELET = "/var/lib/kubelet"
NO_FIELDS = "none"
"""Non-empty value, since API servers drop empty texts and then report a change at every apply."""
PART_OF = "app.kubernetes.io/part-of"
COMPONENT = "app.kubernetes.io/component"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings in which installations differ."""

    namespace: str = NAMESPACE
    image: str = IMAGE
    replicas: int = 2
    resource: str = "nvidia.com/gpu"
    """Name of the GPU resource on the nodes."""
    pull_policy: str = "IfNotPresent"
    pull_secret: str = ""
    """Name of a secret in the namespace, where the image needs one."""
    history: str = ""
    """Name of a volume claim for what outlives objects; none: it lasts as long as the controller's pod."""
    runtime_class: str = ""
    """RuntimeClass of pods that see GPUs, where NVIDIA's runtime is not the nodes' usual one (k3s)."""
    kubelet: str = KUBELET
    """The kubelet's folder on the nodes."""
    disruption_version: str = "policy/v1"
    """policy/v1beta1 before Kubernetes 1.21."""
    admission_policies: bool = False
    """True if the server takes ValidatingAdmissionPolicies, as 1.30 and newer do."""
    converters: bool = True
    """True if jobs of other systems are accepted too."""
    allowed_pod_fields: str = NO_FIELDS
    """Fields of `pod` that jobs may set besides `api.inputs.pod_allow_list`: `PATH`, `QUEUE:PATH`, by commas.
    """
    pod_security: str = "restricted"
    """Pod Security level of the namespaces that are made for jobs; `baseline` lets them be root."""
    dcgm: str = ""
    """URL of a node's DCGM exporter (`http://$(GRUS_HOST):9400/metrics`); else the driver is asked."""
    prometheus: str = ""
    """A Prometheus server that knows all nodes' GPUs, in place of either."""
    select: str = ""
    """Selector of a node's series (`node="$(GRUS_NODE)"`);
    without it each profiler reads those of all nodes.
    """


RESTRICTED: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""Security context that a namespace with restricted Pod
Security requires. No user id: OpenShift chooses one.
"""


def selector(component: str) -> dict[str, str]:
    return {PART_OF: "grus", COMPONENT: component}


def from_field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def pull_secrets(settings: Settings) -> Object:
    return {"imagePullSecrets": [{"name": settings.pull_secret}]} if settings.pull_secret else {}
