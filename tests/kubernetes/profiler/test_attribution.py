"""Whose a measurement is."""

from grus.kubernetes.profiler.attribution import holders, merged, of_pods, subject
from grus.kubernetes.profiler.pods import GpuPod
from grus.model.identifiers import DeviceId, NodeId
from grus.telemetry.samples import Measure, Sample, Subject

NODE = NodeId("node-1")
USE, MEMORY = Measure.UTILISATION, Measure.MEMORY


def a_pod(name: str, *uuids: str) -> GpuPod:
    return GpuPod(f"uid-{name}", name, "team", (), uuids, "", {}, True)


def a_sample(device: str, use: float, *, memory: float = 1.0, holder: str = "", node: str = NODE) -> Sample:
    return Sample(Subject(NodeId(node), DeviceId(device)), 10.0, {USE: use, MEMORY: memory}, holder)


def test_a_pod_with_two_gpus_has_their_mean_use_and_all_their_memory() -> None:
    pod = a_pod("a", "GPU-0", "GPU-1")
    samples = [a_sample("GPU-0", 0.4, memory=5.0), a_sample("GPU-1", 0.8, memory=7.0)]
    (found,) = of_pods(samples, [pod], NODE)
    assert found.subject == subject(NODE, pod)
    assert (round(found.values[USE], 6), found.values[MEMORY]) == (0.6, 12.0)
    assert holders(samples, [pod]) == {pod.uid: {"GPU-0", "GPU-1"}}


def test_the_node_agents_word_counts_before_a_late_label() -> None:
    old, new = a_pod("old"), a_pod("new", "GPU-0")
    (found,) = of_pods([a_sample("GPU-0", 0.4, holder="team/old")], [old, new], NODE)
    assert found.subject == subject(NODE, new)


def test_where_the_agent_has_said_nothing_the_source_is_believed() -> None:
    pod = a_pod("plain")
    (found,) = of_pods([a_sample("GPU-0", 0.4, holder="team/plain")], [pod], NODE)
    assert found.subject == subject(NODE, pod)
    assert of_pods([a_sample("GPU-0", 0.4, holder="other/plain")], [pod], NODE) == []


def test_the_memory_of_a_shared_gpu_is_nobodys_alone() -> None:
    pods = [a_pod("a", "GPU-0"), a_pod("b", "GPU-0")]
    for found in of_pods([a_sample("GPU-0", 0.4)], pods, NODE):
        assert found.values == {USE: 0.4}


def test_gpus_of_other_nodes_are_nobodys_here() -> None:
    assert of_pods([a_sample("GPU-0", 0.4, node="node-2")], [a_pod("a", "GPU-0")], NODE) == []


def test_host_and_gpu_make_one_sample_as_old_as_the_older() -> None:
    whose = subject(NODE, a_pod("a"))
    both = [Sample(whose, 9.0, {USE: 0.4}), Sample(whose, 10.0, {Measure.CPU: 2.0})]
    assert merged(both) == [Sample(whose, 9.0, {USE: 0.4, Measure.CPU: 2.0})]
