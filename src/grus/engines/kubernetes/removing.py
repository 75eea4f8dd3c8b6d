"""The end of a pod: its log is kept, our finalizer comes off, and it goes, or stays for people to read."""

from contextlib import suppress

from grus.engines.kubernetes import records
from grus.engines.kubernetes.fence import Fence
from grus.engines.kubernetes.lanes import Later
from grus.engines.kubernetes.logs import Logs
from grus.engines.kubernetes.pool import Pool
from grus.engines.kubernetes.records import Record
from grus.kubernetes.api import Api
from grus.kubernetes.kinds import PODS, Object
from grus.kubernetes.names import CONTROL, ENDED, JOB, WAS, WORKER
from grus.kubernetes.refusals import Conflicts, Missing, Unreachable

AGAIN = 2.0
"""Seconds until a node is asked again for a log that it did not give."""


class Removing:
    """Every step can be repeated, by the next engine too."""

    def __init__(self, api: Api, fence: Fence, pool: Pool, logs: Logs) -> None:
        self._api = api
        self._fence = fence
        self._pool = pool
        self._logs = logs

    def remove(self, record: Record, *, last: bool) -> None:
        """Of an ended worker; with `last` its log is given up if it still cannot be had."""
        pod, where = record.pod, records.source(record)
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
        if not records.made_by_grus(pod):
            return
        if printed and records.may_stay(pod):
            self._retire(record, pod)
        else:
            self._delete(pod)

    def _retire(self, record: Record, pod: Object) -> None:
        """Leave a finished pod to people, who look for its log there; its job owns it, and takes it along."""
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
        """By force: nothing of it runs any more, or its node is gone for good."""
        name, namespace, uid = (pod["metadata"][key] for key in ("name", "namespace", "uid"))
        with suppress(Missing):
            while WORKER in (pod["metadata"].get("finalizers") or ()) and pod["metadata"]["uid"] == uid:
                try:
                    self._take_finalizer_off(pod)
                    break
                except Conflicts:  # somebody has written meanwhile
                    pod = self._api.get(PODS, name, namespace)
            with suppress(Conflicts):  # another one of its name
                self._api.delete(PODS, name, namespace, grace=0, uid=uid)

    def _take_finalizer_off(self, pod: Object) -> None:
        metadata = pod["metadata"]
        left = [one for one in metadata.get("finalizers") or () if one != WORKER]
        body = {"metadata": {"finalizers": left or None, "resourceVersion": metadata["resourceVersion"]}}
        self._api.patch(PODS, metadata["name"], body, metadata["namespace"])
