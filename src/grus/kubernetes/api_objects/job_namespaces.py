"""Namespaces of jobs: the one that a user's jobs in a queue go to, and those where jobs never run. Pure.

A job that comes over HTTP has no namespace of its own. It goes to `grus-QUEUE-USER-HASH`: both names as far
as a namespace can have them, and twelve digits of a hash of both in full, so that no two pairs meet. The
namespace carries both names in full, too, and Grus compares them before each use.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from grus.kubernetes.install.install_options import PART_OF
from grus.kubernetes.names import ALLOWED_POD_FIELDS, MANAGED, QUEUE, USER
from grus.model.errors import Mistake
from grus.model.identifiers import QueueName, UserName

Object = dict[str, Any]
SYSTEM_PREFIXES = ("kube-", "openshift-")
"""Reserved by Kubernetes and OpenShift for themselves."""
RESTRICTED, BASELINE = "restricted", "baseline"
LEVELS = (RESTRICTED, BASELINE)
_ENFORCE = "pod-security.kubernetes.io/enforce"
_DIGITS = 12
_PART = 22
"""Characters of each name: 5 + 22 + 1 + 22 + 1 + 12 are 63, the most that a namespace can have."""


def is_system(namespace: str, own: str) -> bool:
    """True if jobs never run there: a namespace of the cluster, or `own`, the controller's."""
    return namespace == own or namespace.startswith(SYSTEM_PREFIXES)


def system_mistake(namespace: str, own: str) -> Mistake | None:
    """Return the error of an object in a system namespace; None elsewhere."""
    if not is_system(namespace, own):
        return None
    rule = "is a system namespace, where Grus runs no jobs: use a namespace of your own"
    return Mistake("metadata.namespace", rule, namespace)


def namespace_of(queue: QueueName, user: UserName) -> str:
    """The namespace of a user's jobs in a queue: the same for the same pair, another for another."""
    digest = hashlib.sha256(f"{queue}\0{user}".encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    words = [part for part in (_readable(queue), _readable(user)) if part]
    return "-".join(("grus", *words, digest))


def _readable(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower())[:_PART].strip("-")


def namespace_object(queue: QueueName, user: UserName, level: str) -> Object:
    """Return the namespace as the controller creates it."""
    return {
        "metadata": {
            "name": namespace_of(queue, user),
            "labels": {
                MANAGED: "true",
                "app.kubernetes.io/name": "grus",
                PART_OF: "grus",
                **{f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "warn", "audit")},
            },
            "annotations": {QUEUE: queue, USER: user},
        }
    }


def is_managed(namespace: Mapping[str, Any]) -> bool:
    return (namespace["metadata"].get("labels") or {}).get(MANAGED) == "true"


def belongs_to(namespace: Mapping[str, Any], queue: QueueName, user: UserName) -> bool:
    """True if Grus has made it for this pair."""
    notes = namespace["metadata"].get("annotations") or {}
    return is_managed(namespace) and (notes.get(QUEUE), notes.get(USER)) == (queue, user)


def forbids_root(namespace: Mapping[str, Any]) -> bool:
    """True if its pods must not be root, by its Pod Security level."""
    return (namespace["metadata"].get("labels") or {}).get(_ENFORCE) == RESTRICTED


def allowed_fields(namespace: Mapping[str, Any]) -> frozenset[str]:
    """Paths of `pod` that an administrator allows to the jobs of a namespace."""
    text = (namespace["metadata"].get("annotations") or {}).get(ALLOWED_POD_FIELDS, "")
    return frozenset(re.split(r"[\s,]+", text.strip())) - {""}
