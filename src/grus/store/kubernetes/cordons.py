"""Cordons: the nodes that are closed to new work, as by `kubectl cordon`. Read from memory, written to the
cluster.
"""

from contextlib import suppress

from grus.kubernetes.client.api import Api
from grus.kubernetes.client.errors import Missing
from grus.kubernetes.client.informer import Reflector
from grus.kubernetes.client.resource_kinds import NODES
from grus.model.errors import Conflict, NotFound
from grus.model.identifiers import NodeId
from grus.model.nodes import Cordon


class Cordons:
    def __init__(self, api: Api, nodes: Reflector | None) -> None:
        """Set up. `nodes`: an existing reflector of the nodes; its creator closes it."""
        self._api = api
        self._own = nodes is None
        self.nodes = nodes or Reflector(api, NODES)

    def all(self) -> list[Cordon]:
        closed = [node for node in self.nodes.all() if node["spec"].get("unschedulable")]
        return [Cordon(NodeId(node["metadata"]["name"])) for node in closed]

    def put(self, cordon: Cordon) -> None:
        if cordon.drain is not None:
            node = cordon.node
            raise Conflict(f"node {node} belongs to a cluster; `kubectl drain {node}` empties it")
        try:
            self._patch(cordon.node, closed=True)
        except Missing as error:
            raise NotFound(f"there is no node {cordon.node}") from error

    def delete(self, node: str) -> None:
        with suppress(Missing):  # a node that is not there is open already
            self._patch(node, closed=None)

    def _patch(self, node: str, closed: bool | None) -> None:
        self.nodes.note(self._api.patch(NODES, node, {"spec": {"unschedulable": closed}}))

    def close(self) -> None:
        if self._own:
            self.nodes.close()
