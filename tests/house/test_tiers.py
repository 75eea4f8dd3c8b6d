"""Every test file has one tier, by its folder."""

from pathlib import Path

import pytest

from tests.tiers import BROWSER, CLUSTER, CORE, FOLDERS, PROCESS, TESTS, TORCH, tier_of


@pytest.mark.parametrize(
    ("file", "tier"),
    [
        ("scheduler/queues/test_queue_usage_tree.py", CORE),
        ("cli/commands/test_jobs.py", CORE),
        ("cli/processes/test_end_to_end.py", PROCESS),
        ("live/test_gangs.py", PROCESS),
        ("elastic/test_models.py", TORCH),
        ("kubernetes/engine/test_contract.py", CLUSTER),
        ("operator/foreign_jobs/cluster/test_sync.py", CLUSTER),
        ("simulator/html_pages/browser/test_comparison_page.py", BROWSER),
    ],
)
def test_the_innermost_folder_that_names_a_tier_decides(file: str, tier: str) -> None:
    assert (TESTS / file).is_file()
    assert tier_of(TESTS / file) == tier


def test_every_folder_that_names_a_tier_exists() -> None:
    there = {folder.name for folder in TESTS.rglob("*") if folder.is_dir()}
    assert set(FOLDERS) <= there


def test_a_file_outside_of_the_tests_is_not_bound_by_the_rules_of_core(tmp_path: Path) -> None:
    assert tier_of(tmp_path / "test_some.py") == PROCESS
