"""The kinds of objects that Grus asks a cluster for, and where the API server keeps them. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

Object = dict[str, Any]
"""An object of the API server as it came, in plain dicts and lists."""
Objects = list[Object]

GROUP = "grus.dev"
VERSION = "v1alpha1"


class Kind(NamedTuple):
    """A kind of objects. Two kinds with the same name in different groups are different kinds."""

    group: str
    version: str
    plural: str
    namespaced: bool
    name: str
    """As objects say it: `Pod`."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str = "", name: str = "", part: str = "", query: Mapping[str, str] | None = None
    ) -> str:
        """Where the API server has it; without a name, all of them; without a namespace, those of all."""
        where = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            where += f"/namespaces/{quote(namespace, safe='')}"
        where += f"/{self.plural}"
        if name:
            where += f"/{quote(name, safe='')}"
        if part:
            where += f"/{part}"
        return f"{where}?{urlencode(query)}" if query else where


NAMESPACES = Kind("", "v1", "namespaces", False, "Namespace")
NODES = Kind("", "v1", "nodes", False, "Node")
PODS = Kind("", "v1", "pods", True, "Pod")
SERVICES = Kind("", "v1", "services", True, "Service")
CONFIG_MAPS = Kind("", "v1", "configmaps", True, "ConfigMap")
SECRETS = Kind("", "v1", "secrets", True, "Secret")
EVENTS = Kind("", "v1", "events", True, "Event")
SERVICE_ACCOUNTS = Kind("", "v1", "serviceaccounts", True, "ServiceAccount")
VOLUME_CLAIMS = Kind("", "v1", "persistentvolumeclaims", True, "PersistentVolumeClaim")
LEASES = Kind("coordination.k8s.io", "v1", "leases", True, "Lease")
DEFINITIONS = Kind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", False, "CustomResourceDefinition"
)
PRIORITY_CLASSES = Kind("scheduling.k8s.io", "v1", "priorityclasses", False, "PriorityClass")
DEPLOYMENTS = Kind("apps", "v1", "deployments", True, "Deployment")
DAEMON_SETS = Kind("apps", "v1", "daemonsets", True, "DaemonSet")
ROLES = Kind("rbac.authorization.k8s.io", "v1", "roles", True, "Role")
ROLE_BINDINGS = Kind("rbac.authorization.k8s.io", "v1", "rolebindings", True, "RoleBinding")
CLUSTER_ROLES = Kind("rbac.authorization.k8s.io", "v1", "clusterroles", False, "ClusterRole")
CLUSTER_ROLE_BINDINGS = Kind(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", False, "ClusterRoleBinding"
)
NETWORK_POLICIES = Kind("networking.k8s.io", "v1", "networkpolicies", True, "NetworkPolicy")
ADMISSION_POLICIES = Kind(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", False, "ValidatingAdmissionPolicy"
)
"""Since 1.30: ask `Api.serves`; so are ADMISSION_BINDINGS."""
ADMISSION_BINDINGS = ADMISSION_POLICIES._replace(
    plural="validatingadmissionpolicybindings", name="ValidatingAdmissionPolicyBinding"
)
DISRUPTION_BUDGETS = Kind("policy", "v1", "poddisruptionbudgets", True, "PodDisruptionBudget")
"""Since 1.21; before, DISRUPTION_BUDGETS_BETA: ask `Api.serves`."""
DISRUPTION_BUDGETS_BETA = DISRUPTION_BUDGETS._replace(version="v1beta1")

GPU_JOBS = Kind(GROUP, VERSION, "gpujobs", True, "GpuJob")
GPU_QUEUES = Kind(GROUP, VERSION, "gpuqueues", False, "GpuQueue")
