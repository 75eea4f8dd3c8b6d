"""Everything that an installation consists of, as plain objects in the order in which they are applied. Pure.

`grus kubernetes install` applies them, `grus kubernetes manifests` prints them, and the files under deploy/
are made of them: there is one source. Nothing here asks a cluster; what differs between releases of
Kubernetes is a setting.
"""

import json
from dataclasses import dataclass
from typing import Any

from grus.kubernetes import foreign, rights
from grus.kubernetes.names import AGENT
from grus.kubernetes.resources import GROUP, definitions

Object = dict[str, Any]

NAMESPACE = "grus-system"
IMAGE = "grus:0.1.0"
PORT = 7600
PROBES = 8081
HOME = "/var/lib/grus"
KUBELET = "/var/lib/kubelet"
PART_OF = "app.kubernetes.io/part-of"
COMPONENT = "app.kubernetes.io/component"
LEADER = f"{GROUP}/leader"
"""Label of the controller's pod that acts; the service leads there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What differs from one installation to the next."""

    namespace: str = NAMESPACE
    image: str = IMAGE
    replicas: int = 2
    resource: str = "nvidia.com/gpu"
    """What the nodes call a GPU."""
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
    converters: bool = True
    """Whether jobs of other systems are taken too."""


def objects(settings: Settings) -> list[Object]:
    """All of it: what others need comes before them."""
    made = [
        _namespace(settings),
        *definitions(),
        *(foreign.definitions() if settings.converters else ()),
        *rights.roles(settings.namespace, converters=settings.converters),
        _service(settings),
        _disruption_budget(settings),
        *_network_policies(settings),
        _controller(settings),
        _agent(settings),
    ]
    return [_labelled(one) for one in made]


def _labelled(one: Object) -> Object:
    """With the label by which an uninstall finds it."""
    metadata = one["metadata"]
    labels = {"app.kubernetes.io/name": "grus", PART_OF: "grus", **metadata.get("labels", {})}
    return {**one, "metadata": {**metadata, "labels": labels}}


def _namespace(settings: Settings) -> Object:
    """The agent needs the host's processes and the kubelet's folder: only this pod security lets it in."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": settings.namespace,
            "labels": {"pod-security.kubernetes.io/enforce": "privileged"},
        },
    }


def _selector(component: str) -> dict[str, str]:
    return {PART_OF: "grus", COMPONENT: component}


# ---------------------------------------------------------------------------------------------- controller


def _controller(settings: Settings) -> Object:
    history: Object = (
        {"persistentVolumeClaim": {"claimName": settings.history}} if settings.history else {"emptyDir": {}}
    )
    container = {
        "name": "controller",
        "image": settings.image,
        "imagePullPolicy": settings.pull_policy,
        "command": ["grus", "kubernetes", "controller"],
        "env": [
            _from_field("GRUS_POD", "metadata.name"),
            _from_field("GRUS_NAMESPACE", "metadata.namespace"),
            {"name": "GRUS_IMAGE", "value": settings.image},
            {"name": "GRUS_GPU_RESOURCE", "value": settings.resource},
            *_worker_template(settings),
            # A random user id has no entry in passwd, and so no home.
            {"name": "HOME", "value": HOME},
            {"name": "GRUS_HOME", "value": HOME},
        ],
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],  # old servers need the last
        "startupProbe": _probe(every=1, failures=120),
        "livenessProbe": _probe(every=10, failures=6),
        "readinessProbe": _probe(every=5, failures=3),
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}},
        "securityContext": {**RESTRICTED, "readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": "history", "mountPath": HOME}, {"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - the container's own
    }
    spec = {
        "serviceAccountName": rights.CONTROLLER,
        "priorityClassName": "system-cluster-critical",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "terminationGracePeriodSeconds": 15,
        "affinity": _apart("controller"),
        "containers": [container],
        "volumes": [{"name": "history", **history}, {"name": "tmp", "emptyDir": {}}],
        **_pull_secrets(settings),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": rights.CONTROLLER,
            "namespace": settings.namespace,
            "labels": _selector("controller"),
        },
        "spec": {
            "replicas": settings.replicas,
            "selector": {"matchLabels": _selector("controller")},
            "template": {"metadata": {"labels": _selector("controller")}, "spec": spec},
        },
    }


RESTRICTED: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""What a namespace with restricted Pod Security asks of a container. No user id: OpenShift chooses one."""


def _probe(*, every: int, failures: int) -> Object:
    """One that stands by is as ready as it can be; were it not, a drain would wait for it for ever."""
    return {
        "httpGet": {"path": "/livez", "port": PROBES},
        "periodSeconds": every,
        "failureThreshold": failures,
        "timeoutSeconds": 5,
    }


def _apart(component: str) -> Object:
    """On two nodes where there are two: one that fails does not take both."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": _selector(component)}}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _from_field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _worker_template(settings: Settings) -> list[Object]:
    """What all workers' pods have besides: their job says more."""
    if not settings.runtime_class:
        return []
    part = {"spec": {"runtimeClassName": settings.runtime_class}}
    return [{"name": "GRUS_POD_TEMPLATE", "value": json.dumps(part)}]


def _pull_secrets(settings: Settings) -> Object:
    return {"imagePullSecrets": [{"name": settings.pull_secret}]} if settings.pull_secret else {}


def _service(settings: Settings) -> Object:
    """The API and the dashboard: of the one that leads."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "grus", "namespace": settings.namespace},
        "spec": {
            "selector": {**_selector("controller"), LEADER: "true"},
            "ports": [{"name": "http", "port": PORT, "targetPort": "http", "protocol": "TCP"}],
        },
    }


def _disruption_budget(settings: Settings) -> Object:
    """Nodes can be drained one after the other, and one controller is always left."""
    return {
        "apiVersion": settings.disruption_version,
        "kind": "PodDisruptionBudget",
        "metadata": {"name": rights.CONTROLLER, "namespace": settings.namespace},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": _selector("controller")}},
    }


def _network_policies(settings: Settings) -> list[Object]:
    """Nothing comes in but to the API; whatever else runs in the namespace neither hears nor speaks."""
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "grus-nothing", "namespace": settings.namespace},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": rights.CONTROLLER, "namespace": settings.namespace},
            "spec": {
                "podSelector": {"matchLabels": _selector("controller")},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [{"ports": [{"protocol": "TCP", "port": PORT}]}],
                "egress": [{}],  # the API server's address is not known here
            },
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": rights.AGENT, "namespace": settings.namespace},
            "spec": {
                "podSelector": {"matchLabels": _selector("agent")},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [
                    {"from": [{"podSelector": {"matchLabels": _selector("controller")}}]},
                ],
                "egress": [{}],
            },
        },
    ]


# --------------------------------------------------------------------------------------------------- agent


def _agent(settings: Settings) -> Object:
    """On every node, whatever its taints: a node without a GPU costs one sleeping process."""
    pods = f"{settings.kubelet}/pods"
    container = {
        "name": "agent",
        "image": settings.image,
        "imagePullPolicy": settings.pull_policy,
        "command": ["grus", "kubernetes", "agent"],
        "env": [
            _from_field("GRUS_NODE", "spec.nodeName"),
            _from_field("GRUS_NAMESPACE", "metadata.namespace"),
            _from_field("GRUS_POD", "metadata.name"),
            _from_field("GRUS_POD_UID", "metadata.uid"),
            {"name": "GRUS_KUBELET_PODS", "value": pods},
            # Where NVIDIA's runtime is the node's usual one: all GPUs, to be measured and not to be used.
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
        ],
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": list(AGENT_CAPABILITIES)},
        },
        "volumeMounts": [
            {"name": "pods", "mountPath": pods, "mountPropagation": "HostToContainer"},
            {"name": "cgroup", "mountPath": "/sys/fs/cgroup", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the container's own
        ],
    }
    spec = {
        "serviceAccountName": rights.AGENT,
        "priorityClassName": "system-node-critical",
        "hostPID": True,
        "terminationGracePeriodSeconds": 5,
        **({"runtimeClassName": settings.runtime_class} if settings.runtime_class else {}),
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [
            {"name": "pods", "hostPath": {"path": pods, "type": "Directory"}},
            {"name": "cgroup", "hostPath": {"path": "/sys/fs/cgroup", "type": "Directory"}},
            {"name": "tmp", "emptyDir": {}},
        ],
        **_pull_secrets(settings),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": rights.AGENT, "namespace": settings.namespace, "labels": _selector("agent")},
        "spec": {
            "selector": {"matchLabels": _selector("agent")},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "20%"}},
            "template": {"metadata": {"labels": {**_selector("agent"), AGENT: "true"}}, "spec": spec},
        },
    }


AGENT_CAPABILITIES = ("DAC_OVERRIDE", "KILL", "SYS_PTRACE")
"""Reads and writes in the volumes of pods of any user, ends their processes, reads their environment."""
