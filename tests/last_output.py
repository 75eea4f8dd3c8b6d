"""Output of a worker process of the suite that dies, which pytest would lose.

pytest keeps what a test prints in unnamed files of the worker. The controller opens the same files through
/proc while the worker lives, and can still read them after its death.
"""

import os
from pathlib import Path
from typing import Any

import pytest

DIED = pytest.StashKey[bool]()
"""True in the controller once a worker has died."""

NAMES = ("stdout", "stderr")
MOST = 20_000
"""Characters of each stream that are shown."""


class LastOutput:
    """pytest plugin: workers report where their output is, the controller keeps it open."""

    def __init__(self) -> None:
        self.files: dict[str, list[int]] = {}

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        folder = _exchange(session.config)
        if folder and (worker := os.environ.get("PYTEST_XDIST_WORKER")):
            paths = [f"/proc/{os.getpid()}/fd/{number}" for number in _captured(session.config)]
            (folder / worker).write_text("\n".join(paths))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["last_output"] = str(_folder(node.config))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any) -> None:
        file = _folder(node.config) / node.gateway.id
        if file.exists():
            self.files[node.gateway.id] = [os.open(path, os.O_RDONLY) for path in file.read_text().split()]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Show the output of a worker that ended too early; no other worker runs the rest of its tests."""
        descriptors = self.files.pop(node.gateway.id, [])
        if error:
            node.config.stash[DIED] = True
            reporter = node.config.pluginmanager.get_plugin("terminalreporter")
            for name, descriptor in zip(NAMES, descriptors, strict=False):
                reporter.section(f"{name} of worker {node.gateway.id}, which died", sep="!")
                reporter.line(_text(descriptor))
        for descriptor in descriptors:
            os.close(descriptor)


def _captured(config: pytest.Config) -> list[int]:
    """Return the descriptors of the files into which pytest captures; none if it captures otherwise."""
    manager = config.pluginmanager.get_plugin("capturemanager")
    capture = getattr(manager, "_global_capturing", None)
    streams = [getattr(capture, name, None) for name in ("out", "err")]
    files = [getattr(stream, "tmpfile", None) for stream in streams]
    return [file.fileno() for file in files if file is not None]


def _folder(config: pytest.Config) -> Path:
    """Return the folder in which the workers of this controller report."""
    factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
    folder = factory.getbasetemp() / "last-output"
    folder.mkdir(exist_ok=True)
    return folder


def _exchange(config: pytest.Config) -> Path | None:
    named = getattr(config, "workerinput", {}).get("last_output")
    return Path(named) if named else None


def _text(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, MOST, max(0, size - MOST)).decode(errors="replace")
