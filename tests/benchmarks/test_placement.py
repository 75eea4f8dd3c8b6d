"""The placement benchmark: its graphs are read as the files mean them, and its figures tell what is wrong."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks.placement import Tally, caps, figures, load, rounds, step
from benchmarks.placement_graphs import Profiled, folder, read, read_all
from benchmarks.placement_models import TRAININGS
from grus.estimation.training_definition import Training
from grus.partition.execution.placement_plan import Rhythm, Schedule
from grus.partition.topology import Link, alike


def a_file(root: Path) -> Profiled:
    node = {"colorClass": 1, "isBackwardNode": 0, "cpuLatency": 9.0, "supportedOnFpga": 1}
    held = {
        "maxSizePerFPGA": 100.0,
        "maxFPGAs": 2,
        "maxCPUs": 1,
        "nodes": [
            node | {"id": 7, "name": "a", "fpgaLatency": 2.0, "size": 60.0},
            node | {"id": 3, "name": "b", "fpgaLatency": 4.0, "size": 50.0, "colorClass": 2},
        ],
        "edges": [{"sourceId": 7, "destId": 3, "cost": 1.0, "size": 99.0}],
    }
    (root / "latency").mkdir()
    path = root / "latency" / "tiny.json"
    path.write_text(json.dumps(held))
    (root / "tiny_expert.json").write_text(json.dumps({"fpgas": [{"nodes": [3]}, {"nodes": [7]}]}))
    return read(path, Link(1e-4), root)


def test_a_file_is_read_in_seconds_and_bytes(tmp_path: Path) -> None:
    one = a_file(tmp_path)
    first, second = one.graph.ops
    assert (first.seconds, first.permanent, first.output, first.saved) == (0.002, 60, 10, True)
    assert (second.group, second.output) == ("class 2", 0)
    assert one.graph.edges == ((0, 1),)
    assert one.expert == (1, 0)


def test_a_case_without_an_answer_counts_as_right_only_if_the_memory_named_does(tmp_path: Path) -> None:
    one, tally = a_file(tmp_path), Tally()
    assert "no room for operator a" in step(one.graph, alike([20, 20], one.link), tally, ("two",))
    assert (tally.right, tally.infeasible) == ([True], 1)


def test_steps_and_pipelines_enter_the_figures(tmp_path: Path) -> None:
    one, tally = a_file(tmp_path), Tally()
    own = alike([one.memory] * one.devices, one.link)
    step(one.graph, own, tally, ("captured", "two"))
    rounds(one.graph, own, Schedule(Rhythm.GPIPE, 4), tally)
    load(one, tally)
    found = figures(tally)
    assert found["checked"] == 1.0
    assert found["worst_ratio_to_expert"] == 1.0
    assert found["median_ratio_to_bound"] == 1.0
    assert len(tally.rounds) == 1


def test_caps_are_shares_of_what_the_model_needs(tmp_path: Path) -> None:
    one = a_file(tmp_path)
    found = [*caps(one.graph, alike([0, 0], one.link), (2, 4))]
    assert [len(one.devices) for one in found] == [2, 2, 2, 4, 4, 4]
    assert [one.largest for one in found] == [66, 82, 165, 33, 41, 82]


def test_the_models_have_the_sizes_that_their_papers_tell() -> None:
    millions = {name: round(_parameters(make()) / 1e6) for name, make in TRAININGS.items()}
    assert millions == {"Inception-v3": 24, "Transformer": 63, "GPT-2": 124, "ResNet-50": 26}


def _parameters(training: Training) -> int:
    with torch.device("meta"):
        return sum(one.numel() for one in training.model().parameters())


def test_pipelines_of_the_public_graphs_are_no_slower_than_the_experts() -> None:
    root = folder()
    if root is None:
        pytest.skip("GRUS_DATA names no folder with dnn-partitioning")
    tally = Tally()
    for one in read_all(root, "throughput"):
        load(one, tally)
    assert all(tally.right)
    assert len(tally.expert) == 6
    assert max(tally.expert) <= 1.0
