"""The API server as plain dicts: what it is asked for, and what it refuses."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from grus.kubernetes.client.api import (
    Api,
    Conflicts,
    Exists,
    Forbidden,
    Invalid,
    Missing,
    Object,
    Unreachable,
)
from grus.kubernetes.client.resource_kinds import CONFIG_MAPS, DISRUPTION_BUDGETS_BETA, GPU_JOBS, NODES, PODS
from tests.kubernetes.clusters import Cluster
from tests.kubernetes.faults import LOST, PASS, Faults
from tests.kubernetes.objects import a_node, a_pod


@pytest.fixture
def shaky(faults: Faults) -> Iterator[Api]:
    """Through `faults`."""
    connected = Api.connect(faults.kubeconfig, patience=2.0)
    yield connected
    connected.close()


@pytest.fixture
def node(api: Api) -> Iterator[str]:
    name = f"pretend-{uuid.uuid4().hex[:8]}"
    api.create(NODES, a_node(name).to_dict())
    yield name
    api.delete(NODES, name)


def a_map(name: str, **data: str) -> Object:
    return {"metadata": {"name": name}, "data": data}


def test_an_object_is_made_once_read_replaced_and_deleted(api: Api, namespace: str) -> None:
    made = api.create(CONFIG_MAPS, a_map("crane", legs="two"), namespace)
    with pytest.raises(Exists):
        api.create(CONFIG_MAPS, a_map("crane"), namespace)
    assert api.get(CONFIG_MAPS, "crane", namespace) == made
    newer = api.replace(CONFIG_MAPS, {**made, "data": {"legs": "one"}})
    assert newer["data"] == {"legs": "one"}
    with pytest.raises(Conflicts):
        api.replace(CONFIG_MAPS, {**made, "data": {"legs": "three"}})
    with pytest.raises(Conflicts):
        api.delete(CONFIG_MAPS, "crane", namespace, uid="another")
    with pytest.raises(Conflicts):
        api.delete(CONFIG_MAPS, "crane", namespace, version=made["metadata"]["resourceVersion"])
    api.delete(CONFIG_MAPS, "crane", namespace, uid=made["metadata"]["uid"])
    with pytest.raises(Missing):
        api.get(CONFIG_MAPS, "crane", namespace)


def test_what_is_tried_dry_leaves_nothing(api: Api, namespace: str) -> None:
    api.create(CONFIG_MAPS, a_map("crane"), namespace, dry_run=True)
    with pytest.raises(Missing):
        api.get(CONFIG_MAPS, "crane", namespace)


def test_an_object_that_breaks_rules_is_invalid_with_the_servers_words(api: Api, namespace: str) -> None:
    with pytest.raises(Invalid, match="containers"):
        api.create(PODS, {"metadata": {"name": "empty"}, "spec": {"containers": []}}, namespace)


def test_a_list_has_all_pages_and_what_was_chosen(api: Api, namespace: str) -> None:
    for number in range(7):
        one = {"metadata": {"name": f"map-{number}", "labels": {"odd": str(number % 2)}}}
        api.create(CONFIG_MAPS, one, namespace)
    every, version = api.list(CONFIG_MAPS, namespace, limit=3)
    assert {f"map-{number}" for number in range(7)} <= {one["metadata"]["name"] for one in every}
    assert all((one["kind"], one["apiVersion"]) == ("ConfigMap", "v1") for one in every)
    assert int(version) >= max(int(one["metadata"]["resourceVersion"]) for one in every)
    odd, _ = api.list(CONFIG_MAPS, labels="odd=1", fields=f"metadata.namespace={namespace}")
    assert [one["metadata"]["name"] for one in odd] == ["map-1", "map-3", "map-5"]


def test_objects_are_patched_in_four_ways(api: Api, namespace: str) -> None:
    api.create(CONFIG_MAPS, a_map("crane", legs="two", neck="long"), namespace)
    merged = api.patch(CONFIG_MAPS, "crane", {"data": {"legs": "one", "neck": None}}, namespace)
    assert merged["data"] == {"legs": "one"}
    steps = [{"op": "test", "path": "/data/legs", "value": "two"}]
    with pytest.raises(Invalid):
        api.patch(CONFIG_MAPS, "crane", steps, namespace, how="json")
    labels = {"metadata": {"labels": {"bird": "yes"}}}
    assert api.patch(CONFIG_MAPS, "crane", labels, namespace, how="strategic")["metadata"]["labels"]
    applied = {"metadata": {"name": "crane"}, "data": {"legs": "three"}}
    with pytest.raises(Conflicts, match="legs"):
        api.patch(CONFIG_MAPS, "crane", applied, namespace, how="apply", manager="other")
    forced = api.patch(CONFIG_MAPS, "crane", applied, namespace, how="apply", manager="other", force=True)
    assert forced["data"] == {"legs": "three"}
    stale = {"metadata": {"resourceVersion": merged["metadata"]["resourceVersion"]}, "data": {}}
    with pytest.raises(Conflicts):
        api.patch(CONFIG_MAPS, "crane", stale, namespace)


def test_a_part_of_an_object_is_written_by_itself(api: Api, node: str) -> None:
    written = api.patch(NODES, node, {"status": {"allocatable": {"pods": "7"}}}, part="status")
    assert written["status"]["allocatable"]["pods"] == "7"
    assert api.get(NODES, node, part="status")["status"] == written["status"]


def test_a_pod_is_bound_once_and_its_annotations_with_it(api: Api, namespace: str, node: str) -> None:
    pod = api.create(PODS, a_pod("worker", "true").to_dict(), namespace)
    uid = pod["metadata"]["uid"]
    api.bind("worker", namespace, node, uid=uid, annotations={"grus.dev/epoch": "7"})
    bound = api.get(PODS, "worker", namespace)
    assert (bound["spec"]["nodeName"], bound["metadata"]["annotations"]) == (node, {"grus.dev/epoch": "7"})
    with pytest.raises(Conflicts):
        api.bind("worker", namespace, node, uid=uid)
    with pytest.raises(Missing):
        api.bind("nobody", namespace, node)


def test_a_binding_whose_answer_was_lost_is_found_to_be_done(
    api: Api, shaky: Api, faults: Faults, namespace: str, node: str
) -> None:
    api.create(PODS, a_pod("worker", "true").to_dict(), namespace)
    lost = iter([LOST])
    faults.rule = lambda method, path: next(lost, PASS)
    shaky.bind("worker", namespace, node)
    assert api.get(PODS, "worker", namespace)["spec"]["nodeName"] == node
    lost = iter([LOST])
    with pytest.raises(Conflicts):
        shaky.bind("worker", namespace, "another")


def test_a_creation_whose_answer_was_lost_is_not_repeated(
    api: Api, shaky: Api, faults: Faults, namespace: str
) -> None:
    faults.rule = lambda method, path: LOST
    with pytest.raises(Unreachable) as trouble:
        shaky.create(CONFIG_MAPS, a_map("crane"), namespace)
    assert trouble.value.arrived
    assert len(faults.asked) == 1
    assert api.get(CONFIG_MAPS, "crane", namespace)


def test_a_watch_tells_what_changes_after_a_version_and_ends_in_time(api: Api, namespace: str) -> None:
    _, version = api.list(CONFIG_MAPS, namespace)
    api.create(CONFIG_MAPS, a_map("crane"), namespace)
    api.patch(CONFIG_MAPS, "crane", {"data": {"legs": "two"}}, namespace)
    api.delete(CONFIG_MAPS, "crane", namespace)
    fields = "metadata.name=crane"
    events = list(api.watch(CONFIG_MAPS, namespace, version=version, fields=fields, timeout=1))
    assert [event.type for event in events if event.type != "BOOKMARK"] == ["ADDED", "MODIFIED", "DELETED"]


def test_a_watch_is_closed_by_another_hand(api: Api, namespace: str) -> None:
    _, version = api.list(CONFIG_MAPS, namespace)
    watch = api.watch(CONFIG_MAPS, namespace, version=version, timeout=300)
    watch.close()
    assert list(watch) == []


def test_who_is_not_known_or_not_allowed_is_forbidden(cluster: Cluster, tmp_path: Path) -> None:
    content = json.loads(cluster.kubeconfig.read_text())
    for user in ({"token": "made up"}, {}):
        content["users"][0]["user"] = user
        (tmp_path / "kubeconfig").write_text(json.dumps(content))
        stranger = Api.connect(tmp_path / "kubeconfig")
        with pytest.raises(Forbidden):
            stranger.list(PODS)
        stranger.close()


def test_a_server_whose_certificate_is_not_trusted_is_given_up_at_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    content = json.loads(cluster.kubeconfig.read_text())
    del content["clusters"][0]["cluster"]["certificate-authority-data"]
    (tmp_path / "kubeconfig").write_text(json.dumps(content))
    careful = Api.connect(tmp_path / "kubeconfig", patience=3600.0)
    with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
        careful.list(PODS)
    careful.close()
    content["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    (tmp_path / "kubeconfig").write_text(json.dumps(content))
    careless = Api.connect(tmp_path / "kubeconfig")
    assert careless.release() >= (1, 20)
    careless.close()


def test_what_the_server_knows_can_be_asked(api: Api) -> None:
    assert api.release() >= (1, 20)
    assert api.serves(PODS)
    assert api.serves(DISRUPTION_BUDGETS_BETA) or api.release() >= (1, 25)
    assert not api.serves(GPU_JOBS._replace(version="v0"))
