"""Node pool: the cluster's nodes as the pool that Grus schedules on, kept up to date change by change.

The threads that watch nodes and pods update it; any thread may read it. Only nodes whose pods or labels
changed are computed again: a pool of a thousand nodes costs nothing while nothing changes.
"""

import logging
import threading
from collections.abc import Callable

from grus.engines.kubernetes.nodes import ObservedNode, Rules, ready, seen, terminal
from grus.kubernetes.client.resource_kinds import Object
from grus.model.nodes import Node

logger = logging.getLogger(__name__)

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Taint with which people declare that a node will not return as it was."""


class KubernetesPool:
    """Any thread."""

    def __init__(
        self,
        rules: Rules,
        lost_after: float,
        clock: Callable[[], float],
        complain: Callable[[str, str], None] = lambda node, text: None,  # noqa: ARG005 - to nobody
    ) -> None:
        """Create the pool view; `complain` receives node and
        sentence, once, when something is wrong with a node.
        """
        self._rules = rules
        self._lost_after = lost_after
        self._clock = clock
        self._complain = complain
        self._lock = threading.Lock()
        self._objects: dict[str, Object] = {}
        self._pods: dict[str, dict[tuple[str, str], Object]] = {}
        self._silent: dict[str, float] = {}
        """Since when nodes have not been ready, as far as we saw."""
        self._seen: dict[str, ObservedNode | None] = {}
        self._changed: set[str] = set()
        self._nodes: tuple[Node, ...] = ()

    def node_changed(self, what: str, node: Object) -> None:
        name = node["metadata"]["name"]
        with self._lock:
            self._changed.add(name)
            if what == "DELETED":
                self._objects.pop(name, None)
                self._silent.pop(name, None)
                return
            self._objects[name] = node
            if ready(node):
                self._silent.pop(name, None)
            else:
                self._silent.setdefault(name, self._clock())

    def pod_changed(self, what: str, pod: Object) -> None:
        node = (pod.get("spec") or {}).get("nodeName")
        if not node:
            return
        key = (pod["metadata"].get("namespace", ""), pod["metadata"]["name"])
        with self._lock:
            here = self._pods.setdefault(node, {})
            if what == "DELETED" or terminal(pod):
                if here.pop(key, None) is None:
                    return
            else:
                here[key] = pod
            self._changed.add(node)

    def nodes(self) -> tuple[Node, ...]:
        """The same object as before if nothing has changed."""
        with self._lock:
            if self._changed:
                for name in self._changed:
                    self._look(name)
                self._changed = set()
                found = (one for one in self._seen.values() if one is not None)
                nodes = tuple(sorted((one.node for one in found), key=lambda node: node.id))
                self._nodes = nodes if nodes != self._nodes else self._nodes
            return self._nodes

    def node(self, name: str) -> Node | None:
        return next((node for node in self.nodes() if node.id == name), None)

    def gone(self, node: str) -> str:
        """Return the reason why a node will never return as it was, in words; "" if it may."""
        with self._lock:
            known = self._objects.get(node)
            if known is None:
                return f"its node {node} is not in the cluster any more"
            since = self._silent.get(node)
            if since is None:
                return ""
            taints = (known.get("spec") or {}).get("taints") or ()
            if any(taint.get("key") == OUT_OF_SERVICE for taint in taints):
                return f"its node {node} is out of service"
            silent = self._clock() - since
            return f"its node {node} has been silent for {silent:.0f} s" if silent >= self._lost_after else ""

    def silent(self) -> frozenset[str]:
        """Nodes that are not ready."""
        with self._lock:
            return frozenset(self._silent)

    def _look(self, name: str) -> None:
        before = self._seen.pop(name, None)
        if name not in self._objects:
            return
        now = self._seen[name] = seen(self._objects[name], self._pods.get(name, {}).values(), self._rules)
        complaints = now.complaints if now is not None else ()
        for complaint in complaints:
            if before is None or complaint not in before.complaints:
                logger.warning("%s", complaint)
                self._complain(name, complaint)
