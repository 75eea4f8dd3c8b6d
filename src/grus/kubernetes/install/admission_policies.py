"""ValidatingAdmissionPolicies: limits on Grus's own accounts that RBAC cannot express. Pure.

RBAC can neither exclude a namespace nor name a node. Kubernetes 1.30 and newer evaluate an expression for
each request: the controller writes nothing in system namespaces, and programs that run on a node write only
pods of that node, by the node's name in their token.
"""

from typing import Any

from grus.kubernetes.api_objects.job_namespaces import SYSTEM_PREFIXES
from grus.kubernetes.install import rbac

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
            _rule(["", rbac.RBAC], ["*/*"], ["CREATE", "UPDATE", "DELETE", "CONNECT"]),
            _is(namespace, rbac.CONTROLLER),
            f"request.resource.resource == 'events' || !({inside})",
            "the controller of Grus writes nothing in system namespaces",
        ),
        *_policy(
            "grus-nodes-own-pods",
            _rule([""], ["pods/status"], ["UPDATE"]),
            _is(namespace, rbac.AGENT, rbac.PROFILER),
            f"has(object.spec.nodeName) && object.spec.nodeName == {node}",
            "an agent or profiler of Grus writes only pods of its own node",
        ),
        *_policy(
            "grus-profilers-own-node",
            {**_rule([""], ["nodes/status"], ["UPDATE"]), "scope": "Cluster"},
            _is(namespace, rbac.PROFILER),
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
