"""Kinds of objects that Grus uses in a cluster, and their paths on the API server. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

Object = dict[str, Any]
"""An object of the API server as it came, in plain dicts and lists."""
Objects = list[Object]

GROUP = "grus.dev"
VERSION = "v1alpha1"


class ResourceKind(NamedTuple):
    """A kind of objects. Two kinds with the same name in different groups are different kinds."""

    group: str
    version: str
    plural: str
    namespaced: bool
    name: str
    """Kind in objects: `Pod`."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str = "", name: str = "", part: str = "", query: Mapping[str, str] | None = None
    ) -> str:
        """Return the path on the API server; without a name,
        of all objects; without a namespace, of all of them.
        """
        where = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            where += f"/namespaces/{quote(namespace, safe='')}"
        where += f"/{self.plural}"
        if name:
            where += f"/{quote(name, safe='')}"
        if part:
            where += f"/{part}"
        return f"{where}?{urlencode(query)}" if query else where


NAMESPACES = ResourceKind("", "v1", "namespaces", False, "Namespace")
NODES = ResourceKind("", "v1", "nodes", False, "Node")
PODS = ResourceKind("", "v1", "pods", True, "Pod")
SERVICES = ResourceKind("", "v1", "services", True, "Service")
CONFIG_MAPS = ResourceKind("", "v1", "configmaps", True, "ConfigMap")
EVENTS = ResourceKind("", "v1", "events", True, "Event")
SERVICE_ACCOUNTS = ResourceKind("", "v1", "serviceaccounts", True, "ServiceAccount")
LEASES = ResourceKind("coordination.k8s.io", "v1", "leases", True, "Lease")
DEFINITIONS = ResourceKind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", False, "CustomResourceDefinition"
)
DEPLOYMENTS = ResourceKind("apps", "v1", "deployments", True, "Deployment")
DAEMON_SETS = ResourceKind("apps", "v1", "daemonsets", True, "DaemonSet")
ROLES = ResourceKind("rbac.authorization.k8s.io", "v1", "roles", True, "Role")
ROLE_BINDINGS = ResourceKind("rbac.authorization.k8s.io", "v1", "rolebindings", True, "RoleBinding")
CLUSTER_ROLES = ResourceKind("rbac.authorization.k8s.io", "v1", "clusterroles", False, "ClusterRole")
CLUSTER_ROLE_BINDINGS = ResourceKind(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", False, "ClusterRoleBinding"
)
NETWORK_POLICIES = ResourceKind("networking.k8s.io", "v1", "networkpolicies", True, "NetworkPolicy")
ADMISSION_POLICIES = ResourceKind(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", False, "ValidatingAdmissionPolicy"
)
"""Since 1.30: check with `Api.serves`; the same for ADMISSION_BINDINGS."""
ADMISSION_BINDINGS = ADMISSION_POLICIES._replace(
    plural="validatingadmissionpolicybindings", name="ValidatingAdmissionPolicyBinding"
)
DISRUPTION_BUDGETS = ResourceKind("policy", "v1", "poddisruptionbudgets", True, "PodDisruptionBudget")
"""Since 1.21; before, DISRUPTION_BUDGETS_BETA: check with `Api.serves`."""
DISRUPTION_BUDGETS_BETA = DISRUPTION_BUDGETS._replace(version="v1beta1")

GPU_JOBS = ResourceKind(GROUP, VERSION, "gpujobs", True, "GpuJob")
GPU_QUEUES = ResourceKind(GROUP, VERSION, "gpuqueues", False, "GpuQueue")
