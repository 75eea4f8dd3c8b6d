"""Manifests of an installation, as plain objects in the order in which they are applied. Pure.

`grus kubernetes install` applies them, `grus kubernetes manifests` prints them, and the files under deploy/
are made of them: there is one source. No code here calls a cluster; differences between releases of
Kubernetes are settings.
"""

import json

from grus.kubernetes.install import admission_policies, daemonsets, foreign_crds, rbac
from grus.kubernetes.install.custom_resources import GROUP, definitions
from grus.kubernetes.install.install_options import (
    HOME,
    PART_OF,
    PORT,
    PROBES,
    RESTRICTED,
    Object,
    Settings,
    from_field,
    pull_secrets,
    selector,
)

LEADER = f"{GROUP}/leader"
"""Label of the controller's pod that acts; the service leads there."""


def objects(settings: Settings) -> list[Object]:
    """All of it: what others need comes before them."""
    made = [
        _namespace(settings),
        *definitions(),
        *(foreign_crds.definitions() if settings.converters else ()),
        *rbac.roles(settings.namespace, converters=settings.converters),
        *(admission_policies.policies(settings.namespace) if settings.admission_policies else ()),
        _service(settings),
        _disruption_budget(settings),
        *_network_policies(settings),
        _controller(settings),
        daemonsets.agent(settings),
        daemonsets.profiler(settings),
    ]
    return [_labelled(one) for one in made]


def _labelled(one: Object) -> Object:
    """Return the object with the label by which an uninstall finds it."""
    metadata = one["metadata"]
    labels = {"app.kubernetes.io/name": "grus", PART_OF: "grus", **metadata.get("labels", {})}
    return {**one, "metadata": {**metadata, "labels": labels}}


def _namespace(settings: Settings) -> Object:
    """Return the namespace; its pod security admits the agent,
    which needs host processes and the kubelet's folder.
    """
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": settings.namespace,
            "labels": {"pod-security.kubernetes.io/enforce": "privileged"},
        },
    }


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
            from_field("GRUS_POD", "metadata.name"),
            from_field("GRUS_NAMESPACE", "metadata.namespace"),
            {"name": "GRUS_IMAGE", "value": settings.image},
            {"name": "GRUS_GPU_RESOURCE", "value": settings.resource},
            {"name": "GRUS_ALLOWED_POD_FIELDS", "value": settings.allowed_pod_fields},
            {"name": "GRUS_POD_SECURITY", "value": settings.pod_security},
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
        "serviceAccountName": rbac.CONTROLLER,
        "priorityClassName": "system-cluster-critical",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "terminationGracePeriodSeconds": 15,
        "affinity": _apart("controller"),
        "containers": [container],
        "volumes": [{"name": "history", **history}, {"name": "tmp", "emptyDir": {}}],
        **pull_secrets(settings),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": rbac.CONTROLLER,
            "namespace": settings.namespace,
            "labels": selector("controller"),
        },
        "spec": {
            "replicas": settings.replicas,
            "selector": {"matchLabels": selector("controller")},
            "template": {"metadata": {"labels": selector("controller")}, "spec": spec},
        },
    }


def _probe(*, every: int, failures: int) -> Object:
    """Return the HTTP probe of a controller, for startup, liveness and readiness alike.

    A standby controller counts as ready; otherwise a drain would wait for it without end.
    """
    return {
        "httpGet": {"path": "/livez", "port": PROBES},
        "periodSeconds": every,
        "failureThreshold": failures,
        "timeoutSeconds": 5,
    }


def _apart(component: str) -> Object:
    """Return the affinity for two different nodes where there are two: one failure does not stop both."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": selector(component)}}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _worker_template(settings: Settings) -> list[Object]:
    """Return the settings that all workers' pods have besides those of their jobs."""
    if not settings.runtime_class:
        return []
    part = {"spec": {"runtimeClassName": settings.runtime_class}}
    return [{"name": "GRUS_POD_TEMPLATE", "value": json.dumps(part)}]


def _service(settings: Settings) -> Object:
    """The API and the dashboard: of the one that leads."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "grus", "namespace": settings.namespace},
        "spec": {
            "selector": {**selector("controller"), LEADER: "true"},
            "ports": [{"name": "http", "port": PORT, "targetPort": "http", "protocol": "TCP"}],
        },
    }


def _disruption_budget(settings: Settings) -> Object:
    """Nodes can be drained one after the other, and one controller is always left."""
    return {
        "apiVersion": settings.disruption_version,
        "kind": "PodDisruptionBudget",
        "metadata": {"name": rbac.CONTROLLER, "namespace": settings.namespace},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector("controller")}},
    }


def _network_policies(settings: Settings) -> list[Object]:
    """Return the network policies: only the API accepts
    traffic; other pods of the namespace have no network.
    """
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
            "metadata": {"name": rbac.CONTROLLER, "namespace": settings.namespace},
            "spec": {
                "podSelector": {"matchLabels": selector("controller")},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [{"ports": [{"protocol": "TCP", "port": PORT}]}],
                "egress": [{}],  # the API server's address is not known here
            },
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": rbac.AGENT, "namespace": settings.namespace},
            "spec": {
                "podSelector": {"matchLabels": selector("agent")},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [
                    {"from": [{"podSelector": {"matchLabels": selector("controller")}}]},
                ],
                "egress": [{}],
            },
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": rbac.PROFILER, "namespace": settings.namespace},
            "spec": {
                "podSelector": {"matchLabels": selector("profiler")},
                "policyTypes": ["Ingress", "Egress"],
                "egress": [{}],
            },
        },
    ]
