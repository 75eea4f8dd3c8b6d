"""Tiers of the tests: a test's folder decides which one it belongs to.

| tier | its tests |
| --- | --- |
| core | compute in their own process: no other process, no torch, no cluster, no browser |
| process | start servers, jobs and other programs |
| torch | import torch, or train in processes of their own |
| cluster | use a real Kubernetes |
| browser | drive a real browser |

A folder `processes`, `cluster` or `browser` inside the folder of a package has that tier, so that tests of
one package stay together.
`pytest --tier core` runs one tier and does not even read the files of the others.
"""

from pathlib import Path

CORE, PROCESS, TORCH, CLUSTER, BROWSER = ALL = ("core", "process", "torch", "cluster", "browser")

FOLDERS = {
    "browser": BROWSER,
    "chaos": PROCESS,
    "cluster": CLUSTER,
    "elastic": TORCH,
    "engines": PROCESS,
    "estimation": TORCH,
    "kubernetes": CLUSTER,
    "live": PROCESS,
    "partition": TORCH,
    "processes": PROCESS,
    "serving": TORCH,
    "trust": PROCESS,
}
"""Tier by name of a folder; the innermost one counts, and all others are core."""

LONG = frozenset(
    {"live", "chaos", "engine", "test_in_numbers.py", "test_split_run.py", "test_core_machine.py"}
)
"""Folders and files whose tests take longest: they start first in their tier."""

TESTS = Path(__file__).parent


def tier_of(path: Path) -> str:
    """Return the tier of a test file, or of all files in a folder.

    Files outside of tests/, which tests write, need not keep the rules of core.
    """
    if not path.is_relative_to(TESTS):
        return PROCESS
    parts = path.relative_to(TESTS).parts
    folders = parts if path.is_dir() else parts[:-1]
    return next((FOLDERS[name] for name in reversed(folders) if name in FOLDERS), CORE)
