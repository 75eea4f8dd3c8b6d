"""Rights and namespaces that jobs need, requested where and when they are needed.

The controller's ClusterRole lets it read pods everywhere and write them nowhere. It binds the role of jobs to
itself in each namespace that has a job, and never in a system namespace. Namespaces of jobs that come over
HTTP it creates itself, and uses no other one of that name.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from grus.kubernetes.api_objects.job_namespaces import belongs_to, is_system, namespace_object, namespace_of
from grus.kubernetes.client.api import Api, Object
from grus.kubernetes.client.errors import Exists, Missing
from grus.kubernetes.client.resource_kinds import NAMESPACES, ROLE_BINDINGS, SERVICE_ACCOUNTS
from grus.kubernetes.install.rbac import jobs_binding
from grus.model.errors import Conflict, NotAllowed, StoreFailed
from grus.model.identifiers import QueueName, UserName

log = logging.getLogger(__name__)

IN_FORCE = 30.0
"""Seconds within which the API server must honor a binding that it has accepted."""
LOOK = 0.1
_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Grants:
    """Grants of rights, for any thread. A right found
    once is assumed for as long as this controller leads.
    """

    def __init__(
        self,
        api: Api,
        own: str,
        *,
        level: str,
        find: Callable[[str], Object | None],
        note: Callable[[Object], None] = lambda _: None,
    ) -> None:
        """`own` is the controller's namespace, `level` the Pod Security of namespaces that are made here."""
        self._api = api
        self._own = own
        self._level = level
        self._find = find
        self._note = note
        self._lock = threading.Lock()
        self._granted: set[tuple[str, str]] = set()
        self._prepared: set[tuple[str, str]] = set()
        """Names and uids: a namespace of the same name that comes later has nothing yet."""

    def grant(self, namespace: str) -> None:
        """Have the rights to run jobs there. Raises NotAllowed for a system namespace, StoreFailed."""
        key = self._key(namespace)
        if key in self._granted:
            return
        if is_system(namespace, self._own) and namespace != self._own:
            raise NotAllowed(f"{namespace} is a system namespace: Grus runs no jobs there")
        with self._lock:
            if key not in self._granted and not self._may(namespace):
                self._bind(namespace)
            self._granted.add(key)

    def prepare(self, queue: QueueName, user: UserName) -> str:
        """The namespace of a user's jobs in a queue, made if need be. Raises Conflict, StoreFailed."""
        name = namespace_of(queue, user)
        self._require_ours(name, queue, user)
        key = self._key(name)
        if key not in self._prepared:
            self.grant(name)
            self._close_account(name)
            self._prepared.add(key)
        return name

    def _key(self, namespace: str) -> tuple[str, str]:
        found = self._find(namespace)
        return namespace, "" if found is None else found["metadata"].get("uid", "")

    def _require_ours(self, name: str, queue: QueueName, user: UserName) -> None:
        found = self._find(name) or self._make(queue, user)
        if not belongs_to(found, queue, user):
            raise Conflict(
                f"namespace {name} is there, but Grus has not made it for user {user} in queue {queue}: "
                "an administrator must remove or rename it"
            )
        if "deletionTimestamp" in found["metadata"]:
            raise StoreFailed(f"namespace {name} is being deleted; try again when it is gone")

    def _make(self, queue: QueueName, user: UserName) -> Object:
        wanted = namespace_object(queue, user, self._level)
        try:
            made = self._api.create(NAMESPACES, wanted)
        except Exists:
            made = self._api.get(NAMESPACES, wanted["metadata"]["name"])
        self._note(made)
        return made

    def _close_account(self, namespace: str) -> None:
        """Pods of the namespace get no token by default."""
        account = {"metadata": {"name": "default"}, "automountServiceAccountToken": False}
        try:
            self._api.create(SERVICE_ACCOUNTS, account, namespace)
        except Exists:
            self._api.patch(SERVICE_ACCOUNTS, "default", account, namespace)

    def _may(self, namespace: str) -> bool:
        asked = {"namespace": namespace, "verb": "create", "resource": "pods"}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        answer = self._api.raw("POST", _REVIEW, {**review, "spec": {"resourceAttributes": asked}})
        return bool((answer.get("status") or {}).get("allowed"))

    def _bind(self, namespace: str) -> None:
        log.info("binding the role of jobs in namespace %s", namespace)
        with suppress(Exists):
            self._api.create(ROLE_BINDINGS, jobs_binding(namespace, self._own), namespace)
        end = time.monotonic() + IN_FORCE
        never = threading.Event()
        while not self._may(namespace):
            if time.monotonic() >= end:
                raise StoreFailed(f"the rights in namespace {namespace} are not in force yet; try again")
            never.wait(LOOK)

    def grant_all(self, namespaces: set[str]) -> None:
        """Grant the rights for jobs that run already. A namespace that is gone or closed is left out."""
        for namespace in sorted(namespaces):
            try:
                self.grant(namespace)
            except (NotAllowed, Missing) as why:
                log.warning("jobs of namespace %s are left alone: %s", namespace, why)
