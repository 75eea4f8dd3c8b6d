"""The benchmark of pods and nodes counts what it says it does."""

from benchmarks.kubernetes import WORKERS, gang_figures
from benchmarks.kubernetes_cluster import GPUS, Placed


def a_pod(name: str, node: str, job: str = "") -> dict[str, object]:
    return {"metadata": {"name": name, "ownerReferences": [{"name": job}]}, "spec": {"nodeName": node}}


def test_a_gang_of_which_some_pods_have_a_node_is_partial() -> None:
    placed = Placed()
    for number in range(WORKERS):
        placed.hear("ADDED", a_pod(f"whole-{number}", f"node-{number % 3}", "whole"))
    placed.hear("ADDED", a_pod("torn-0", "node-9", "torn"))
    figures = gang_figures(placed, {"whole": 0.0, "torn": 0.0, "waits": 0.0})
    assert figures["gangs_partial"] == 1


def test_a_node_with_more_pods_than_gpus_is_overfull() -> None:
    placed = Placed()
    for number in range(GPUS):
        placed.hear("ADDED", a_pod(f"pod-{number}", "node-0"))
    assert placed.overfull() == 0
    placed.hear("MODIFIED", a_pod("pod-0", "node-0"))
    assert placed.overfull() == 0
    placed.hear("ADDED", a_pod("one-more", "node-0"))
    assert placed.overfull() == 1
