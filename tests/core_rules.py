"""Rules of the core tier: its tests start no process and do not import torch.

An audit hook of CPython sees both, whichever library does it. The test that breaks a rule fails, with the
line that broke it.
"""

import sys
import traceback
from collections.abc import Generator
from typing import Any

import pytest

from tests.tiers import CORE, tier_of

STARTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.system"})
"""Audit events of CPython that start a process."""


class CoreRules:
    """pytest plugin that fails the tests of the core tier that break its rules."""

    def __init__(self) -> None:
        self.watching = False
        self.broken: list[str] = []
        sys.addaudithook(self.audit)

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.watching:
            return
        if event in STARTS:
            self._break(f"started a process ({event}: {args[0] if args else ''})")
        elif event == "import" and args[0] == "torch":
            self._break("imported torch")

    def _break(self, rule: str) -> None:
        self.watching = False  # reading the source of a frame must not come back here
        frames = "".join(traceback.format_stack(limit=12)[:-2])
        self.broken.append(
            f"a test of the core tier {rule}; move it to a folder of another tier (tests/tiers.py)\n{frames}"
        )
        self.watching = True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.watching = tier_of(item.path) == CORE
        try:
            return (yield)
        finally:
            self.watching = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Generator[None, None, None]:
        yield
        broken, self.broken = self.broken, []
        if broken:
            pytest.fail(broken[0], pytrace=False)
