"""The end of a pod: its log is kept, our finalizer comes off, and it goes, or stays for people to read."""

from contextlib import suppress

from grus.engines.kubernetes import worker_registry
from grus.engines.kubernetes.fencing import Fence
from grus.engines.kubernetes.keyed_executor import Later
from grus.engines.kubernetes.logs import Logs
from grus.engines.kubernetes.node_inventory import KubernetesPool
from grus.engines.kubernetes.worker_registry import PodRecord
from grus.kubernetes.client.api import Api
from grus.kubernetes.client.errors import Conflicts, Missing, Unreachable
from grus.kubernetes.client.resource_kinds import PODS, Object
from grus.kubernetes.names import CONTROL, ENDED, JOB, WAS, WORKER

AGAIN = 2.0
"""Seconds until a log that a node did not return is requested again."""


class PodRemoval:
    """Every step can be repeated, by the next engine too."""

    def __init__(self, api: Api, fence: Fence, pool: KubernetesPool, logs: Logs) -> None:
        self._api = api
        self._fence = fence
        self._pool = pool
        self._logs = logs

    def remove(self, record: PodRecord, *, last: bool) -> None:
        """Remove the pod of an ended worker; with `last` its log is dropped if it still cannot be read."""
        pod, where = record.pod, worker_registry.source(record)
        if pod is None:
            return
        self._fence.check()
        printed = record.status.started_at is not None and not self._pool.gone(record.node)
        if where is None or not printed:
            self._logs.drop(record.status.id)
        else:
            try:
                self._logs.keep(record.status.id, record.status.job, where)
            except Unreachable as why:
                if not last:
                    raise Later(AGAIN) from why
        if not worker_registry.made_by_grus(pod):
            return
        if printed and worker_registry.may_stay(pod):
            self._retire(record, pod)
        else:
            self._delete(pod)

    def _retire(self, record: PodRecord, pod: Object) -> None:
        """Leave a finished pod for users, who look for its
        log there; its job owns it, and is deleted with it.
        """
        metadata = pod["metadata"]
        body = {
            "metadata": {
                "uid": metadata["uid"],
                "finalizers": [name for name in metadata.get("finalizers") or () if name != WORKER] or None,
                "labels": {JOB: None, ENDED: record.status.job},
                "annotations": {WORKER: None, CONTROL: None, WAS: record.status.id},
            }
        }
        with suppress(Missing, Conflicts):  # it is gone, or another one has its name
            self._api.patch(PODS, metadata["name"], body, metadata["namespace"])

    def _delete(self, pod: Object) -> None:
        """Delete the pod by force: nothing of it runs any more, or its node is gone for good."""
        name, namespace, uid = (pod["metadata"][key] for key in ("name", "namespace", "uid"))
        with suppress(Missing):
            while WORKER in (pod["metadata"].get("finalizers") or ()) and pod["metadata"]["uid"] == uid:
                try:
                    self._take_finalizer_off(pod)
                    break
                except Conflicts:  # another writer was faster
                    pod = self._api.get(PODS, name, namespace)
            with suppress(Conflicts):  # another one has its name
                self._api.delete(PODS, name, namespace, grace=0, uid=uid)

    def _take_finalizer_off(self, pod: Object) -> None:
        metadata = pod["metadata"]
        left = [one for one in metadata.get("finalizers") or () if one != WORKER]
        body = {"metadata": {"finalizers": left or None, "resourceVersion": metadata["resourceVersion"]}}
        self._api.patch(PODS, metadata["name"], body, metadata["namespace"])
