"""Nodes and what is on them, as the pool that Grus schedules on."""

from grus.engines.kubernetes.node_inventory import OUT_OF_SERVICE, KubernetesPool
from grus.engines.kubernetes.nodes import ObservedNode, Rules, seen, tolerated
from grus.kubernetes.client.resource_kinds import Object
from grus.kubernetes.names import DEVICES, RESERVATION
from grus.model.nodes import Device, Health
from tests.engines.kubernetes.builders import a_node, a_pod, a_worker_pod, terminated

RULES = Rules()
A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920"}
A10 = {"nvidia.com/gpu.product": "NVIDIA-A10", "nvidia.com/gpu.memory": "23028"}


def look(node: Object, *pods: Object, rules: Rules = RULES) -> ObservedNode:
    found = seen(node, pods, rules)
    assert found is not None
    return found


def devices(node: Object, *pods: Object, rules: Rules = RULES) -> tuple[Device, ...]:
    return look(node, *pods, rules=rules).node.devices


def usable(node: Object, *pods: Object, rules: Rules = RULES) -> list[str]:
    return [device.id for device in devices(node, *pods, rules=rules) if device.usable]


def test_gpu_feature_discovery_says_type_memory_and_links() -> None:
    first, *_ = found = devices(a_node(gpus=8, labels=A100))
    assert len(found) == 8
    assert (first.id, first.type, first.memory) == ("n1/0", "NVIDIA-A100-SXM4-80GB", 80 << 30)
    assert {device.island for device in found} == {0}
    assert len({device.island for device in devices(a_node(labels=A10))}) == 4


def test_people_may_say_what_nobody_discovers() -> None:
    labels = {"grus.dev/gpu-type": "virtual", "grus.dev/gpu-memory": "16GB", "grus.dev/nvlink": "true"}
    first, *others = devices(a_node(labels=labels))
    assert (first.type, first.memory) == ("virtual", 16_000_000_000)
    assert {device.island for device in others} == {first.island}


def test_other_resources_are_gpus_too() -> None:
    node = a_node(gpus=0, allocatable={"amd.com/gpu": "2"}, labels={"amd.com/gpu.vram": "64G"})
    assert seen(node, (), RULES) is None
    first, _ = devices(node, rules=Rules("amd.com/gpu"))
    assert (first.type, first.memory) == ("amd", 64 << 30)


def test_zones_and_racks_are_found_where_the_scheduler_looks() -> None:
    labels = {"failure-domain.beta.kubernetes.io/zone": "a", "nvidia.com/gpu.clique": "c.1", "team": "x"}
    found = dict(look(a_node(labels=labels)).node.labels)
    assert found["topology.kubernetes.io/zone"] == "a"
    assert found["topology.kubernetes.io/rack"] == "c.1"
    assert found["team"] == "x"
    own = {**labels, "topology.kubernetes.io/rack": "r7"}
    assert dict(look(a_node(labels=own)).node.labels)["topology.kubernetes.io/rack"] == "r7"


def test_pods_of_other_schedulers_keep_their_gpus_cpu_and_memory() -> None:
    other = a_pod("other", gpus=3, requests={"cpu": "1500m", "memory": "4Gi"})
    found = look(a_node(), other).node
    assert [device.outside for device in found.devices] == ["", *["pod team/other"] * 3]
    assert (found.cpu, found.memory) == (6500, 60 << 30)


def test_what_pods_of_grus_hold_is_for_the_scheduler_to_count() -> None:
    worker = a_worker_pod(devices="n1/3", gpus=1, requests={"cpu": "2"})
    other = a_pod("other", gpus=2)
    found = look(a_node(), worker, other).node
    assert [bool(device.outside) for device in found.devices] == [False, True, True, False]
    assert found.cpu == 8000


def test_a_reservation_holds_its_place() -> None:
    notes = {DEVICES: "n1/3"}
    reservation = a_pod("r", gpus=1, scheduler="grus", labels={RESERVATION: "true"}, notes=notes)
    assert usable(a_node(), reservation) == ["n1/0", "n1/1", "n1/2", "n1/3"]
    assert usable(a_node(), reservation, a_pod("other", gpus=3)) == ["n1/3"]


def test_marks_on_a_pod_of_another_scheduler_do_not_hide_its_gpus() -> None:
    pretender = a_worker_pod(devices="", gpus=4)
    pretender["spec"]["schedulerName"] = "default-scheduler"
    assert usable(a_node(), pretender) == []


def test_ended_pods_hold_nothing() -> None:
    assert len(usable(a_node(), a_pod("other", gpus=4, phase="Succeeded"))) == 4
    going = a_pod("going", gpus=4, containerStatuses=[{"name": "main", "state": terminated()}])
    assert usable(a_node(), going) == []
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert len(usable(a_node(), going)) == 4


def test_cordoned_tainted_and_silent_nodes_take_no_new_work() -> None:
    taint = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
    for node in (a_node(unschedulable=True), a_node(taints=[taint]), a_node(ready=False)):
        assert look(node).node.cordoned
    assert len(usable(a_node(unschedulable=True))) == 4
    assert usable(a_node(taints=[taint])) == []
    assert "dedicated=ml:NoSchedule" in devices(a_node(taints=[taint]))[0].outside
    assert {device.health for device in devices(a_node(ready=False))} == {Health.QUARANTINED}


def test_taints_that_are_tolerated_or_only_a_wish_are_no_obstacle() -> None:
    gpu = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    wish = {"key": "dedicated", "effect": "PreferNoSchedule"}
    ours = {"key": "dedicated", "value": "ml", "effect": "NoExecute"}
    assert len(usable(a_node(taints=[gpu, wish]))) == 4
    rules = Rules(tolerations=({"key": "dedicated", "operator": "Equal", "value": "ml"},))
    assert len(usable(a_node(taints=[ours]), rules=rules)) == 4
    assert not tolerated(ours, [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}])
    assert tolerated(ours, [{"operator": "Exists"}])


def test_a_worker_on_a_silent_node_keeps_its_place_until_it_is_known_to_be_lost() -> None:
    found = devices(a_node(ready=False), a_worker_pod(devices="n1/1"))
    healthy = [device.id for device in found if device.health is Health.HEALTHY]
    assert healthy == ["n1/1"]


def test_gpus_out_of_order_are_taken_from_those_that_nobody_uses() -> None:
    node = a_node(allocatable={"nvidia.com/gpu": "3"})
    assert usable(node) == ["n1/0", "n1/1", "n1/2"]
    busy = [a_worker_pod(f"j{i}", devices=f"n1/{i}") for i in range(4)]
    assert len(usable(node, *busy)) == 4
    assert "1 of its 4 GPUs" in look(node).complaints[0]


def test_more_gpus_in_use_than_there_are_disturb_nobody_and_are_told() -> None:
    found = look(a_node(gpus=2), a_worker_pod(devices="n1/0"), a_pod("greedy", gpus=4))
    assert [device.usable for device in found.node.devices] == [True, False]
    assert "3 more than that are in use (pod team/greedy)" in found.complaints[0]


def test_a_node_whose_plugin_is_away_keeps_the_places_of_its_workers() -> None:
    found = devices(a_node(gpus=0), a_worker_pod(devices="n1/2"))
    assert [(device.id, device.usable) for device in found] == [("n1/2", True)]


def test_a_node_that_is_full_of_pods_takes_no_more() -> None:
    node = a_node(allocatable={"pods": "2"})
    assert not look(node, a_pod("a")).node.cordoned
    assert look(node, a_pod("a"), a_pod("b")).node.cordoned


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_pool_follows_its_nodes_and_pods_and_stays_the_same_while_nothing_changes() -> None:
    pool = KubernetesPool(RULES, 60.0, Clock())
    pool.node_changed("ADDED", a_node("n2", gpus=1))
    pool.node_changed("ADDED", a_node("n1", gpus=1))
    first = pool.nodes()
    assert [node.id for node in first] == ["n1", "n2"]
    pool.pod_changed("ADDED", a_pod("web"))
    pool.pod_changed("ADDED", a_pod("web", phase="Succeeded"))
    assert pool.nodes() is first
    pool.pod_changed("ADDED", a_pod("train", gpus=1))
    assert not pool.nodes()[0].devices[0].usable
    pool.pod_changed("DELETED", a_pod("train", gpus=1))
    assert pool.nodes() == first
    pool.node_changed("DELETED", a_node("n2"))
    assert [node.id for node in pool.nodes()] == ["n1"]


def test_a_node_is_gone_when_it_is_removed_silent_for_long_or_declared_out_of_service() -> None:
    clock = Clock()
    pool = KubernetesPool(RULES, 60.0, clock)
    pool.node_changed("ADDED", a_node())
    assert pool.gone("n1") == ""
    pool.node_changed("MODIFIED", a_node(ready=False))
    clock.now = 59.0
    pool.node_changed("MODIFIED", a_node(ready=False))
    assert pool.gone("n1") == ""
    clock.now = 61.0
    assert "silent for 61 s" in pool.gone("n1")
    pool.node_changed("MODIFIED", a_node())
    assert pool.gone("n1") == ""
    taint = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
    pool.node_changed("MODIFIED", a_node(ready=False, taints=[taint]))
    assert "out of service" in pool.gone("n1")
    pool.node_changed("DELETED", a_node())
    assert "not in the cluster" in pool.gone("n1")
