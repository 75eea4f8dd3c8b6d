"""The memory benchmark: its models are those of the papers, and its figures count what they say."""

import pytest
import torch

from benchmarks.memory import CARD, Answer, Row, answers, observe, read, table
from benchmarks.memory_margins import Observation
from benchmarks.memory_models import CNNS
from grus.estimation.allocator import MIB

# Parameters with 1000 classes, as published with torchvision's weights.
PARAMETERS = {
    "ConvNeXtBase": 88_591_464,
    "ConvNeXtTiny": 28_589_128,
    "MnasNet": 4_383_312,
    "MobileNetV2": 3_504_872,
    "MobileNetV3Small": 2_542_856,
    "RegNetX400MF": 5_495_976,
    "RegNetY400MF": 4_344_144,
    "ResNet101": 44_549_160,
    "ResNet152": 60_192_808,
    "VGG16": 138_357_544,
}


def a_row(model: str = "VGG16", peak: int = 1000 * MIB) -> Row:
    return Row(model, "SGD", 8, "RTX3060", peak, {"xmem": peak})


@pytest.mark.parametrize("name", CNNS)
def test_a_model_built_by_hand_has_the_published_number_of_parameters(name: str) -> None:
    with torch.device("meta"):
        assert sum(weights.numel() for weights in CNNS[name]().parameters()) == PARAMETERS[name]


def test_a_bound_fails_below_the_truth_and_above_the_card() -> None:
    row = a_row()
    assert not Answer(row, 0, row.peak).failed
    assert Answer(row, 0, row.peak - 1).failed
    assert not Answer(row, 0, CARD).failed
    assert Answer(row, 0, CARD + 1).failed


def test_a_row_is_answered_from_other_models_only() -> None:
    names = ("a", "b", "c", "own")
    rows = [a_row(name) for name in names]
    seen = [Observation(name, "RTX3060", 900 * MIB, 1000 * MIB) for name in names[:3]]
    own = Observation("own", "RTX3060", 900 * MIB, 5000 * MIB)
    assert answers(rows, [*seen, own])[3].upper == 1000 * MIB


def test_estimates_of_published_runs_are_near_their_peaks() -> None:
    path = table()
    if path is None:
        pytest.skip("GRUS_DATA names no folder with xmem/xmem_sample.csv")
    rows = read(path)
    assert len(rows) == 14
    for row in rows:
        if row.model in ("VGG16", "ConvNeXtTiny"):
            assert observe(row)[0].replayed == pytest.approx(row.peak, rel=0.05)
