"""DaemonSets of Grus: the node agent and the profiler. Pure."""

from grus.kubernetes.install import rbac
from grus.kubernetes.install.install_options import (
    RESTRICTED,
    Object,
    Settings,
    from_field,
    pull_secrets,
    selector,
)
from grus.kubernetes.names import AGENT

AGENT_CAPABILITIES = ("DAC_OVERRIDE", "KILL", "SYS_PTRACE")
"""Reads and writes in the volumes of pods of any user, ends their processes, reads their environment."""
GPUS_TO_MEASURE: list[Object] = [
    # Where NVIDIA's runtime is the node's usual one: all GPUs, to be measured and not to be used.
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
]


def agent(settings: Settings) -> Object:
    """Return the DaemonSet of the agent, for every node with any taints.

    On a node without a GPU it costs one sleeping process.
    """
    pods = f"{settings.kubelet}/pods"
    container = {
        "name": "agent",
        "image": settings.image,
        "imagePullPolicy": settings.pull_policy,
        "command": ["grus", "kubernetes", "agent"],
        "env": [
            from_field("GRUS_NODE", "spec.nodeName"),
            from_field("GRUS_NAMESPACE", "metadata.namespace"),
            from_field("GRUS_POD", "metadata.name"),
            from_field("GRUS_POD_UID", "metadata.uid"),
            {"name": "GRUS_KUBELET_PODS", "value": pods},
            *GPUS_TO_MEASURE,
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
        "serviceAccountName": rbac.AGENT,
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
        **pull_secrets(settings),
    }
    return _daemon_set(settings, rbac.AGENT, selector("agent"), {AGENT: "true"}, spec)


def profiler(settings: Settings) -> Object:
    """Return the DaemonSet of the profiler, for every node.

    It has no root, no processes of others, and no right except to annotate; it reads metrics.
    """
    told = [
        *(["--dcgm", settings.dcgm] if settings.dcgm else []),
        *(["--prometheus", settings.prometheus] if settings.prometheus else []),
        *(["--select", settings.select] if settings.select else []),
    ]
    container = {
        "name": "profiler",
        "image": settings.image,
        "imagePullPolicy": settings.pull_policy,
        "command": ["grus", "kubernetes", "profiler", *told],
        "env": [
            from_field("GRUS_NODE", "spec.nodeName"),
            from_field("GRUS_HOST", "status.hostIP"),
            *GPUS_TO_MEASURE,
        ],
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {**RESTRICTED, "readOnlyRootFilesystem": True},
        "volumeMounts": [
            {"name": "cgroup", "mountPath": "/sys/fs/cgroup", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the container's own
        ],
    }
    spec = {
        "serviceAccountName": rbac.PROFILER,
        "terminationGracePeriodSeconds": 5,
        **({"runtimeClassName": settings.runtime_class} if settings.runtime_class else {}),
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [
            {"name": "cgroup", "hostPath": {"path": "/sys/fs/cgroup", "type": "Directory"}},
            {"name": "tmp", "emptyDir": {}},
        ],
        **pull_secrets(settings),
    }
    return _daemon_set(settings, rbac.PROFILER, selector("profiler"), {}, spec)


def _daemon_set(
    settings: Settings, name: str, chosen: dict[str, str], labels: dict[str, str], spec: Object
) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": settings.namespace, "labels": chosen},
        "spec": {
            "selector": {"matchLabels": chosen},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "20%"}},
            "template": {"metadata": {"labels": {**chosen, **labels}}, "spec": spec},
        },
    }
