"""Fields of `pod` that administrators allow: by the controller's settings, and by a namespace's annotation.

The pod that the converter of ElasticHorovodJobs makes is Grus's own and needs no leave: root in its container
with the capabilities of sshd, and the keys of horovodrun. It is known by its text.
"""

from collections.abc import Callable, Mapping
from typing import Any

from grus.api.inputs.pod_field_policy import fields_for
from grus.kubernetes.api_objects.job_namespaces import allowed_fields, is_managed
from grus.model.jobs import Spec
from grus.operator.foreign_jobs.horovod import SSH_POD

EVERYTHING = frozenset({"metadata", "spec"})


class PodFields:
    """Allowed pod fields, for one job at a time; any thread may call it."""

    def __init__(self, settings: tuple[str, ...], find: Callable[[str], Mapping[str, Any] | None]) -> None:
        """`find` looks a namespace up by its name."""
        self._settings = settings
        self._find = find

    def of(self, spec: Spec, namespace: str) -> frozenset[str]:
        """The paths that a job may set in this namespace."""
        found = self._find(namespace)
        allowed = fields_for(spec.queue, self._settings)
        if found is None:
            return allowed
        converted = spec.pod == SSH_POD and not any(role.pod for role in spec.request.roles)
        own = EVERYTHING if converted and not is_managed(found) else frozenset()
        return allowed | allowed_fields(found) | own
