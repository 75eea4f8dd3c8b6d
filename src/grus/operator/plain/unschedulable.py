"""Telling a plain pod that it cannot be scheduled as it is, in the words that people and autoscalers look
for.

From a thread of its own: a condition and an event, once for each sentence. Where the cluster refuses them
they are dropped; the pod waits all the same.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable

from grus.api.wire_types.timestamps import rfc3339
from grus.kubernetes.client.api import Api
from grus.kubernetes.client.resource_kinds import EVENTS, PODS, Object
from grus.model.errors import GrusError, Mistake

log = logging.getLogger(__name__)

MOST = 10_000
"""Number of remembered messages, which are not reported twice."""


class Refuser:
    """Any thread may `refuse`; it never waits."""

    def __init__(self, api: Api, grant: Callable[[str], None] = lambda _: None) -> None:
        """`grant` sees to the rights in a pod's namespace."""
        self._api = api
        self._grant = grant
        self._waiting: queue.SimpleQueue[tuple[Object, str] | None] = queue.SimpleQueue()
        self._said: dict[str, str] = {}
        self._thread = threading.Thread(target=self._run, name="refuser", daemon=True)
        self._thread.start()

    def refuse(self, pod: Object, mistakes: list[Mistake]) -> None:
        text = "; ".join(str(mistake) for mistake in mistakes)
        uid = pod["metadata"]["uid"]
        if self._said.get(uid) == text:
            return
        if len(self._said) >= MOST:
            self._said.clear()
        self._said[uid] = text
        self._waiting.put((pod, text))

    def close(self) -> None:
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (given := self._waiting.get()) is not None:
            pod, text = given
            try:
                self._tell(pod, text)
            except GrusError as trouble:
                log.info("pod %s was not told why it waits: %s", pod["metadata"]["name"], trouble)

    def _tell(self, pod: Object, text: str) -> None:
        metadata = pod["metadata"]
        name, namespace, now = metadata["name"], metadata["namespace"], rfc3339(time.time())
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": text[:30_000],
            "lastTransitionTime": now,
        }
        self._grant(namespace)
        self._api.patch(
            PODS, name, {"status": {"conditions": [condition]}}, namespace, part="status", how="strategic"
        )
        event = {
            "metadata": {"generateName": f"{name[:200]}.", "namespace": namespace},
            "involvedObject": {"kind": "Pod", "apiVersion": "v1", "name": name, "namespace": namespace}
            | {"uid": metadata["uid"]},
            "type": "Warning",
            "reason": "FailedScheduling",
            "message": text[:1000],
            "source": {"component": "grus"},
            "firstTimestamp": now[:19] + "Z",
            "lastTimestamp": now[:19] + "Z",
            "count": 1,
        }
        self._api.create(EVENTS, event, namespace)
