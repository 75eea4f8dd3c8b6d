"""ValidatingAdmissionPolicies that hold Grus's own accounts to what RBAC cannot say. Pure.

RBAC can neither exclude a namespace nor name a node. Kubernetes 1.30 and newer judge each request by an
expression: the controller writes nothing in system namespaces, and what runs on a node writes only pods of
that node, by the node's name in its token.
"""

from typing import Any

from grus.kubernetes import rights
from grus.kubernetes.job_namespaces import SYSTEM_PREFIXES

Object = dict[str, Any]

API = "admissionregistration.k8s.io/v1"
_NODE = "authentication.kubernetes.io/node-name"


def policies(namespace: str) -> list[Object]:
    """Policies and their bindings, for the accounts of an installation in `namespace`."""
    inside = " || ".join(f"request.namespace.startsWith('{prefix}')" for prefix in SYSTEM_PREFIXES)
    node = f"request.userInfo.extra[?'{_NODE}'][0].orValue('')"
    return [
        *_policy(
            "grus-controller-namespaces",
            _rule(["", rights.RBAC], ["*/*"], ["CREATE", "UPDATE", "DELETE", "CONNECT"]),
            _is(namespace, rights.CONTROLLER),
            f"request.resource.resource == 'events' || !({inside})",
            "the controller of Grus writes nothing in system namespaces",
        ),
        *_policy(
            "grus-nodes-own-pods",
            _rule([""], ["pods/status"], ["UPDATE"]),
            _is(namespace, rights.AGENT, rights.PROFILER),
            f"has(object.spec.nodeName) && object.spec.nodeName == {node}",
            "an agent or profiler of Grus writes only pods of its own node",
        ),
        *_policy(
            "grus-profilers-own-node",
            {**_rule([""], ["nodes/status"], ["UPDATE"]), "scope": "Cluster"},
            _is(namespace, rights.PROFILER),
            f"object.metadata.name == {node}",
            "a profiler of Grus writes only its own node",
        ),
    ]


def _is(namespace: str, *accounts: str) -> str:
    names = ", ".join(f"'system:serviceaccount:{namespace}:{account}'" for account in accounts)
    return f"request.userInfo.username in [{names}]"


def _rule(groups: list[str], resources: list[str], operations: list[str]) -> Object:
    return {
        "apiGroups": groups,
        "apiVersions": ["*"],
        "operations": operations,
        "resources": resources,
        "scope": "Namespaced",
    }


def _policy(name: str, rule: Object, who: str, expression: str, message: str) -> list[Object]:
    return [
        {
            "apiVersion": API,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [rule]},
                "matchConditions": [{"name": "account", "expression": who}],
                "validations": [{"expression": expression, "message": message, "reason": "Forbidden"}],
            },
        },
        {
            "apiVersion": API,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]
