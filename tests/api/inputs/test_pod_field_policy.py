"""The allow-list of `pod`: every attack of the table is refused, what jobs need is not."""

from typing import Any

import pytest

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.api.inputs.pod_field_policy import fields_for, refused, refused_of_spec
from grus.api.inputs.pod_template import text
from grus.api.parsing.validation_errors import field_name, read
from grus.model.errors import BadInput
from tests.trust.pod_attacks import POD_ATTACKS, WHOLE


def mistakes(pod: dict[str, Any], allowed: tuple[str, ...] = ()) -> list[str]:
    """The fields that are refused, by the job file's own rules or by the allow-list."""
    try:
        spec = to_spec(read(JobIn, {"run": "a", "pod": pod}))
    except BadInput as error:
        return [mistake.field for mistake in error.mistakes]
    return [mistake.field for mistake in refused_of_spec(spec, allowed)]


@pytest.mark.parametrize("name", POD_ATTACKS)
def test_no_attack_passes(name: str) -> None:
    assert mistakes(POD_ATTACKS[name])


@pytest.mark.parametrize("name", POD_ATTACKS)
def test_no_attack_passes_by_a_role(name: str) -> None:
    role = {"run": "a", "pod": POD_ATTACKS[name]}
    try:
        spec = to_spec(read(JobIn, {"roles": {"worker": role}}))
    except BadInput:
        return
    assert all(mistake.field.startswith("roles.worker.pod.") for mistake in refused_of_spec(spec))
    assert refused_of_spec(spec)


def test_a_mistake_names_the_field_the_reason_and_the_way_to_have_it_allowed() -> None:
    spec = to_spec(read(JobIn, {"run": "a", "pod": WHOLE}))
    found = {mistake.field: mistake.rule for mistake in refused_of_spec(spec)}
    assert set(found) == {
        "pod.spec.serviceAccountName",
        "pod.spec.automountServiceAccountToken",
        "pod.spec.containers[0].securityContext.privileged",
        "pod.spec.volumes[0].hostPath",
    }
    assert found["pod.spec.volumes[0].hostPath"] == (
        "is not allowed: it reaches the node's files; "
        "an administrator can allow spec.volumes.hostPath (`--allow-pod-field`)"
    )


LABEL = {"fieldPath": "metadata.labels['a']"}
HARMLESS: dict[str, dict[str, Any]] = {
    "labels": {"metadata": {"labels": {"team": "vision", "app.kubernetes.io/name": "x"}}},
    "scratch space": {
        "spec": {
            "volumes": [
                {"name": "a", "emptyDir": {"sizeLimit": "1Gi"}},
                {"name": "b", "configMap": {"name": "settings", "items": [{"key": "k", "path": "p"}]}},
                {"name": "c", "downwardAPI": {"items": [{"path": "p", "fieldRef": LABEL}]}},
            ],
            "containers": [{"volumeMounts": [{"name": "a", "mountPath": "/scratch", "readOnly": False}]}],
        }
    },
    "a user": {"spec": {"securityContext": {"runAsUser": 1000, "fsGroup": 1000, "runAsNonRoot": True}}},
    "less": {
        "spec": {
            "hostPID": False,
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "securityContext": {
                        "privileged": False,
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
                        "readOnlyRootFilesystem": True,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    }
                }
            ],
        }
    },
    "its own": {
        "spec": {
            "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
            "containers": [
                {
                    "env": [
                        {"name": "A", "value": "1"},
                        {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    ],
                    "ports": [{"containerPort": 8080}],
                    "resources": {"limits": {"ephemeral-storage": "10Gi"}},
                    "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 5},
                    "lifecycle": {"preStop": {"exec": {"command": ["sync"]}}},
                }
            ],
        }
    },
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_stays_inside_the_container_needs_no_leave(name: str) -> None:
    assert mistakes(HARMLESS[name]) == []


@pytest.mark.parametrize(
    ("allowed", "pod"),
    [
        ("spec.tolerations", {"spec": {"tolerations": [{"operator": "Exists"}]}}),
        ("spec.volumes.persistentVolumeClaim", POD_ATTACKS["another's claim"]),
        ("spec.containers.resources.limits.devices.kubevirt.io/kvm", POD_ATTACKS["a device of the node"]),
        ("metadata.labels.azure.workload.identity/use", POD_ATTACKS["an identity by label"]),
        ("spec.securityContext", {"spec": {"securityContext": {"runAsUser": 0, "sysctls": []}}}),
        ("spec.volumes", POD_ATTACKS["the node's files"]),
    ],
)
def test_an_administrator_allows_a_field_and_all_below_it(allowed: str, pod: dict[str, Any]) -> None:
    assert mistakes(pod)
    assert mistakes(pod, (allowed,)) == []


def test_leave_for_one_field_is_none_for_another() -> None:
    fields = [field_name(one.at) for one in refused(WHOLE, ["spec.volumes.hostPath", "spec.tolerations"])]
    assert "spec.volumes[0].hostPath" not in fields
    assert "spec.containers[0].securityContext.privileged" in fields
    assert refused(POD_ATTACKS["the node's files"], ["spec.volumes.host", "spec.volumes.hostPathX"])


def test_init_containers_that_are_allowed_keep_the_rules_of_containers() -> None:
    allowed = ["spec.initContainers"]
    fetch = {"name": "fetch", "image": "curl", "command": ["curl"]}
    assert refused({"spec": {"initContainers": [fetch]}}, allowed) == []
    bad = {**fetch, "securityContext": {"privileged": True}}
    assert refused({"spec": {"initContainers": [bad]}}, allowed)
    assert refused({"spec": {"initContainers": [bad]}}, [*allowed, f"{allowed[0]}.securityContext"]) == []


def test_leave_can_be_for_one_queue() -> None:
    settings = ["spec.tolerations", "vision:spec.volumes.nfs"]
    assert fields_for("vision", settings) == {"spec.tolerations", "spec.volumes.nfs"}
    assert fields_for("speech", settings) == {"spec.tolerations"}


def test_nonsense_is_refused_and_does_not_fail() -> None:
    nonsense: tuple[dict[str, Any], ...] = (
        {"spec": []},
        {"spec": {"volumes": {}}},
        {"spec": {"containers": ["a"]}},
        {"metadata": {"labels": []}},
    )
    for pod in nonsense:
        assert refused(pod), text(pod)
