"""Cordons: the nodes that are closed to new work, as by `kubectl cordon`. Read from memory, written to the
cluster.
"""

from grus.kubernetes.client.api import Api
from grus.kubernetes.client.errors import Missing
from grus.kubernetes.client.informer import Reflector
from grus.kubernetes.client.resource_kinds import NODES
from grus.model.errors import NotFound
from grus.model.identifiers import NodeId


class Cordons:
    def __init__(self, api: Api, nodes: Reflector | None) -> None:
        """Set up. `nodes`: an existing reflector of the nodes; its creator closes it."""
        self._api = api
        self._own = nodes is None
        self.nodes = nodes or Reflector(api, NODES)

    def all(self) -> frozenset[NodeId]:
        return frozenset(
            NodeId(node["metadata"]["name"]) for node in self.nodes.all() if node["spec"].get("unschedulable")
        )

    def set(self, node: NodeId, cordoned: bool) -> None:
        try:
            wanted = {"spec": {"unschedulable": True if cordoned else None}}
            self.nodes.note(self._api.patch(NODES, node, wanted))
        except Missing as error:
            if cordoned:  # a node that is not there is open already
                raise NotFound(f"there is no node {node}") from error

    def close(self) -> None:
        if self._own:
            self.nodes.close()
