"""Allow-list of the fields that a job's `pod` section may have. Pure.

The controller makes pods with its own rights, so a field that reaches beyond the container is refused unless
an administrator has allowed it by its path (`spec.tolerations`, `spec.volumes.persistentVolumeClaim`); a path
allows everything below it. A field that is not listed here is refused: new fields of Kubernetes are, too.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grus.api.inputs.pod_template import of_text
from grus.api.parsing.validation_errors import BrokenRule, Place, field_name, shown
from grus.model.errors import Mistake
from grus.model.jobs import Spec

Check = Callable[[Any], str]
"""Reason why a value is refused; "" if it is not."""


@dataclass(frozen=True, slots=True)
class MappingList:
    """List of mappings with these fields."""

    fields: Mapping[str, "Rule"]


@dataclass(frozen=True, slots=True)
class Keys:
    """Mapping with any keys that match this pattern."""

    pattern: re.Pattern[str]


Rule = Mapping[str, "Rule"] | MappingList | Keys | Check


def _any(_: Any) -> str:
    return ""


def _only(*values: Any) -> Check:
    words = " or ".join(str(value).lower() if isinstance(value, bool) else str(value) for value in values)

    def check(value: Any) -> str:
        same = any(type(value) is type(one) and value == one for one in values)
        return "" if same else f"may only be {words}"

    return check


def _no_root(value: Any) -> str:
    """Check a user or group id, or a list of them."""
    ids = value if isinstance(value, list) else [value]
    good = all(isinstance(one, int) and not isinstance(one, bool) and one > 0 for one in ids)
    return "" if good else "may only be above 0: 0 is root"


def _harmless_capabilities(value: Any) -> str:
    return "" if value in ([], None, ["NET_BIND_SERVICE"]) else "may only be NET_BIND_SERVICE"


_OWN_FIELD = re.compile(
    r"metadata\.(name|namespace|uid|(labels|annotations)\['[^']*'\])"
    r"|spec\.(nodeName|serviceAccountName)|status\.(podIPs?|hostIPs?)"
)


def _own_field(value: Any) -> str:
    good = isinstance(value, str) and _OWN_FIELD.fullmatch(value)
    return "" if good else "is no field of the pod that it may read"


_NAME = re.compile(r"[^/.]+|app\.kubernetes\.io/[^/]+")
"""Keys without a domain, and the recommended labels: others are for controllers and runtimes of the node.

Some runtimes put no slash behind their domain (`io.kubernetes.cri-o.Devices`), so no dot is allowed either.
"""
_AMOUNTS = Keys(re.compile(r"cpu|memory|ephemeral-storage|hugepages-[^/]+"))
_SECCOMP: Rule = {"type": _only("RuntimeDefault")}
_IDS: Mapping[str, Rule] = {
    "runAsUser": _no_root,
    "runAsGroup": _no_root,
    "runAsNonRoot": _only(True),
    "seccompProfile": _SECCOMP,
    "appArmorProfile": _SECCOMP,
}
_FIELD_REF: Mapping[str, Rule] = {
    "fieldRef": {"fieldPath": _own_field, "apiVersion": _only("v1")},
    "resourceFieldRef": {"containerName": _any, "resource": _any, "divisor": _any},
}
_CONFIG_KEY: Rule = {"name": _any, "key": _any, "optional": _any}
_TIMES = ("initialDelaySeconds", "periodSeconds", "timeoutSeconds", "successThreshold", "failureThreshold")
_PROBE: Rule = {
    **dict.fromkeys(_TIMES, _any),
    "exec": {"command": _any},
    "httpGet": {"path": _any, "port": _any, "scheme": _any, "httpHeaders": _any},
    "tcpSocket": {"port": _any},
    "grpc": {"port": _any, "service": _any},
}
_CONTAINER: Mapping[str, Rule] = {
    "env": MappingList(
        {"name": _any, "value": _any, "valueFrom": {**_FIELD_REF, "configMapKeyRef": _CONFIG_KEY}}
    ),
    "imagePullPolicy": _any,
    "lifecycle": {name: {"exec": {"command": _any}} for name in ("postStart", "preStop")},
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "startupProbe": _PROBE,
    "ports": MappingList({"containerPort": _any, "name": _any, "protocol": _any}),
    "resources": {"requests": _AMOUNTS, "limits": _AMOUNTS},
    "securityContext": {
        **_IDS,
        "allowPrivilegeEscalation": _only(False),
        "capabilities": {"add": _harmless_capabilities, "drop": _any},
        "privileged": _only(False),
        "procMount": _only("Default"),
        "readOnlyRootFilesystem": _any,
    },
    "stdin": _any,
    "terminationMessagePolicy": _any,
    "tty": _any,
    "volumeMounts": MappingList({"name": _any, "mountPath": _any, "readOnly": _any}),
}
_FILES: Mapping[str, Rule] = {"defaultMode": _any, "optional": _any}
_ITEMS = MappingList({"key": _any, "path": _any, "mode": _any})
_WITH_LEAVE: Mapping[str, Rule] = {
    "spec.initContainers": MappingList(
        {**_CONTAINER, **dict.fromkeys(("name", "image", "command", "args", "workingDir"), _any)}
    )
}
"""Fields that, once allowed by an administrator, still have rules of their own."""
ALLOWED: Mapping[str, Rule] = {
    "metadata": {"labels": Keys(_NAME), "annotations": Keys(_NAME)},
    "spec": {
        "automountServiceAccountToken": _only(False),
        "containers": MappingList(_CONTAINER),
        "dnsConfig": _any,
        "dnsPolicy": _any,
        "enableServiceLinks": _any,
        "hostAliases": _any,
        "hostIPC": _only(False),
        "hostNetwork": _only(False),
        "hostPID": _only(False),
        "hostUsers": _only(False),
        "securityContext": {
            **_IDS,
            "fsGroup": _no_root,
            "fsGroupChangePolicy": _any,
            "supplementalGroups": _no_root,
        },
        "volumes": MappingList(
            {
                "name": _any,
                "emptyDir": {"medium": _any, "sizeLimit": _any},
                "configMap": {**_FILES, "name": _any, "items": _ITEMS},
                "downwardAPI": {**_FILES, "items": MappingList({"path": _any, "mode": _any, **_FIELD_REF})},
            }
        ),
    },
}
"""Fields that jobs may set without permission."""
REASONS = {
    "metadata.annotations": "controllers and runtimes of the cluster act on it",
    "metadata.labels": "controllers of the cluster act on it",
    "spec.automountServiceAccountToken": "jobs act with no rights in the cluster",
    "spec.containers.env.valueFrom.secretKeyRef": "use the job's `secrets` for a Secret's value",
    "spec.containers.envFrom": "it could name any Secret, and variables that choose GPUs",
    "spec.containers.ports.hostPort": "it opens a port of the node",
    "spec.containers.resources": "such devices are not counted by Grus; GPUs are resources.gpu, at the top",
    "spec.containers.securityContext": "it could leave the container",
    "spec.containers.volumeMounts.subPath": "it can lead out of the volume on older kubelets",
    "spec.ephemeralContainers": "a worker is one container",
    "spec.hostIPC": "it shares the node",
    "spec.hostNetwork": "it shares the node",
    "spec.hostPID": "it shares the node",
    "spec.imagePullSecrets": "it names a Secret",
    "spec.initContainers": "a worker is one container",
    "spec.priorityClassName": "it could evict pods of others; use priority, at the top",
    "spec.runtimeClassName": "it chooses how pods are kept apart from the node",
    "spec.securityContext": "it could leave the container",
    "spec.serviceAccount": "it would act with another's rights",
    "spec.serviceAccountName": "it would act with another's rights",
    "spec.tolerations": "it reaches nodes that are closed to jobs",
    "spec.volumes": "it reaches what belongs to others; emptyDir, configMap and downwardAPI are open to all",
    "spec.volumes.hostPath": "it reaches the node's files",
    "spec.volumes.persistentVolumeClaim": "it reaches another's data",
    "spec.volumes.projected": "it could hold a service account's token",
    "spec.volumes.secret": "it names a Secret; use the job's `secrets`",
}
"""Reasons why fields are refused, by path or the nearest parent path."""


def refused(pod: Mapping[str, Any], allowed: Collection[str] = ()) -> list[BrokenRule]:
    """Return every field that is neither on the list nor at or below an `allowed` path."""
    return list(_fields(pod, ALLOWED, (), frozenset(allowed)))


def refused_of_spec(spec: Spec, allowed: Collection[str] = ()) -> list[Mistake]:
    """Return refused parts of the pods of a job and of its roles, as errors of the job file."""
    said: list[tuple[Place, str]] = [(("pod",), spec.pod)]
    said += [(("roles", role.name, "pod"), role.pod) for role in spec.request.roles]
    return [
        Mistake(field_name((*at, *one.at)), one.rule, shown(one.value))
        for at, text in said
        for one in refused(of_text(text), allowed)
    ]


def fields_for(queue: str, settings: Iterable[str]) -> frozenset[str]:
    """Return the paths that an administrator's `settings` allow in a queue: `PATH` for all, or
    `QUEUE:PATH`.
    """
    split = [one.rpartition(":") for one in settings]
    return frozenset(path for name, _, path in split if not name or name == queue)


def _path(at: Place) -> str:
    return ".".join(word for word in at if isinstance(word, str))


def _granted(at: Place, allowed: frozenset[str]) -> bool:
    words = [word for word in at if isinstance(word, str)]
    return any(".".join(words[:count]) in allowed for count in range(1, len(words) + 1))


def _value(value: Any, rule: Rule, at: Place, allowed: frozenset[str]) -> Iterator[BrokenRule]:
    if value is None or _granted(at, allowed):
        return
    if isinstance(rule, MappingList):
        yield from _entries(value, rule, at, allowed)
    elif isinstance(rule, Keys):
        yield from _keys(value, rule, at, allowed)
    elif isinstance(rule, Mapping):
        yield from _fields(value, rule, at, allowed)
    elif why := rule(value):
        yield _broken(at, value, why)


def _fields(
    value: Any, rules: Mapping[str, Rule], at: Place, allowed: frozenset[str]
) -> Iterator[BrokenRule]:
    if not isinstance(value, Mapping):
        yield BrokenRule(at, "must be a mapping", value)
        return
    for key, inner in value.items():
        here = (*at, str(key))
        rule = rules.get(key)
        path = _path(here)
        if rule is not None:
            yield from _value(inner, rule, here, allowed)
        elif path in allowed and path in _WITH_LEAVE:
            yield from _value(inner, _WITH_LEAVE[path], here, allowed - {path})
        elif not _granted(here, allowed):
            yield from _unlisted(inner, here, allowed)


def _unlisted(value: Any, at: Place, allowed: frozenset[str]) -> Iterator[BrokenRule]:
    """Handle a field that is not on the list: refused, except parts that are allowed by their own paths."""
    above = f"{_path(at)}."
    if any(path.startswith(above) for path in allowed):
        if isinstance(value, Mapping):
            yield from _fields(value, {}, at, allowed)
            return
        if isinstance(value, list):
            yield from _entries(value, MappingList({}), at, allowed)
            return
    yield _broken(at, value, "is not allowed")


def _entries(value: Any, rule: MappingList, at: Place, allowed: frozenset[str]) -> Iterator[BrokenRule]:
    if not isinstance(value, list):
        yield BrokenRule(at, "must be a list", value)
        return
    for index, one in enumerate(value):
        yield from _fields(one, rule.fields, (*at, index), allowed)


def _keys(value: Any, rule: Keys, at: Place, allowed: frozenset[str]) -> Iterator[BrokenRule]:
    if not isinstance(value, Mapping):
        yield BrokenRule(at, "must be a mapping", value)
        return
    for key, one in value.items():
        here = (*at, str(key))
        if not rule.pattern.fullmatch(str(key)) and not _granted(here, allowed):
            yield _broken(here, one, "is not allowed")


def _broken(at: Place, value: Any, rule: str) -> BrokenRule:
    path = _path(at)
    words = path.split(".")
    found = (REASONS.get(".".join(words[:count])) for count in range(len(words), 0, -1))
    why = next((reason for reason in found if reason), "Grus does not know it to be harmless")
    leave = f"an administrator can allow {path} (`--allow-pod-field`)"
    return BrokenRule(at, f"{rule}: {why}; {leave}", value)
