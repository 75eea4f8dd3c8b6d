"""Seeding is torch's own, only faster."""

import traceback

import pytest
import torch

from grus.elastic.training_loop.seeding import sow


def test_the_numbers_are_those_after_manual_seed() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    sow(7)
    assert torch.equal(torch.rand(3), expected)


def test_no_stack_is_printed_for_a_gpu_that_nobody_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.manual_seed` does so each time: that is what takes its milliseconds."""
    monkeypatch.setattr(traceback, "format_stack", pytest.fail)
    sow(8)
