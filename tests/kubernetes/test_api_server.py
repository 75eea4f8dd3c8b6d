"""The test cluster without nodes is a real API server with real controllers."""

import json
import uuid
from collections.abc import Iterator

import pytest
from lightkube import Client
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.core_v1 import ConfigMap, Node, NodeStatus, Pod

from tests.kubernetes.clusters import Cluster, kubectl, until
from tests.kubernetes.objects import Binding, a_node, a_pod, build
from tools.kubernetes.versions import parsed, release_of

Crane = create_namespaced_resource("tests.grus.dev", "v1", "Crane", "cranes")


def crane_definition() -> CustomResourceDefinition:
    spec = {"type": "object", "required": ["legs"], "properties": {"legs": {"type": "integer", "maximum": 2}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    return build(
        CustomResourceDefinition,
        {
            "metadata": {"name": "cranes.tests.grus.dev"},
            "spec": {
                "group": "tests.grus.dev",
                "scope": "Namespaced",
                "names": {"kind": "Crane", "plural": "cranes", "singular": "crane"},
                "versions": [
                    {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
                ],
            },
        },
    )


@pytest.fixture
def cranes(client: Client) -> Iterator[None]:
    client.create(crane_definition())
    client.wait(CustomResourceDefinition, "cranes.tests.grus.dev", for_conditions=["Established"])
    yield
    client.delete(CustomResourceDefinition, "cranes.tests.grus.dev")


@pytest.fixture
def pretend_node(client: Client) -> Iterator[str]:
    name = f"pretend-{uuid.uuid4().hex[:8]}"
    client.create(a_node(name))
    client.patch(NodeStatus, name, build(NodeStatus, a_node(name).to_dict()))
    yield name
    client.delete(Node, name)


def test_kubectl_and_the_api_server_are_of_one_release(cluster: Cluster) -> None:
    versions = json.loads(cluster.kubectl("version", "--output=json"))
    release = release_of(kubectl().with_name("kube-apiserver"))
    assert parsed(versions["serverVersion"]["gitVersion"]) == release
    assert parsed(versions["clientVersion"]["gitVersion"]) == release


def test_objects_are_kept_and_read_back(client: Client, namespace: str) -> None:
    client.create(
        ConfigMap(metadata=ObjectMeta(name="feathers"), data={"colour": "grey"}), namespace=namespace
    )
    assert client.get(ConfigMap, "feathers", namespace=namespace).data == {"colour": "grey"}


def test_a_map_is_printed_nicely_without_killing_the_server(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    many = {f"feather-{number}": "grey" for number in range(50)}
    client.create(ConfigMap(metadata=ObjectMeta(name="feathers", labels=many)), namespace=namespace)
    path = f"/api/v1/namespaces/{namespace}/configmaps/feathers"
    for _ in range(20):
        assert (
            json.loads(cluster.kubectl("get", "--raw", f"{path}?pretty=true"))["metadata"]["labels"] == many
        )


@pytest.mark.usefixtures("cranes")
def test_a_new_kind_of_object_is_held_to_its_schema(client: Client, namespace: str) -> None:
    client.create(Crane(metadata=ObjectMeta(name="two"), spec={"legs": 2}), namespace=namespace)
    assert [crane.spec["legs"] for crane in client.list(Crane, namespace=namespace)] == [2]
    with pytest.raises(ApiError, match="legs"):
        client.create(Crane(metadata=ObjectMeta(name="three"), spec={"legs": 3}), namespace=namespace)


def test_a_pod_is_bound_to_a_pretend_node_once(client: Client, namespace: str, pretend_node: str) -> None:
    client.create(a_pod("worker", "true", gpus=8), namespace=namespace)
    binding = Binding(metadata=ObjectMeta(name="worker"), target={"kind": "Node", "name": pretend_node})
    client.create(binding, "worker", namespace=namespace)
    bound = client.get(Pod, "worker", namespace=namespace)
    assert bound.spec is not None
    assert bound.spec.nodeName == pretend_node
    with pytest.raises(ApiError) as refusal:
        client.create(binding, "worker", namespace=namespace)
    assert refusal.value.status.code == 409


def test_what_an_object_owns_goes_with_it(client: Client, namespace: str) -> None:
    owner = client.create(ConfigMap(metadata=ObjectMeta(name="owner")), namespace=namespace)
    assert owner.metadata is not None
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
    owned = build(ConfigMap, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    client.create(owned, namespace=namespace)
    client.delete(ConfigMap, "owner", namespace=namespace)

    def names() -> set[str | None]:
        return {one.metadata.name for one in client.list(ConfigMap, namespace=namespace) if one.metadata}

    until(lambda: "owned" not in names(), "what was owned is collected")
