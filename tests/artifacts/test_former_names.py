"""Commands that an earlier version recorded name modules of `grus.artefacts`."""

from importlib import import_module

import pytest


@pytest.mark.parametrize(("former", "now"), [("stage", "stage"), ("sweeping", "gc"), ("archive", "archive")])
def test_a_former_name_runs_the_same_program(former: str, now: str) -> None:
    assert import_module(f"grus.artefacts.{former}").main is import_module(f"grus.artifacts.{now}").main
