"""A vault in a test's folder, things to keep in it, and the program around a job's own as a real process."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grus.artifacts.artifact_store import ArtifactStore

NODE = "node"
PLENTY = 1 << 30


def a_vault(folder: Path) -> ArtifactStore:
    folder.mkdir(parents=True, exist_ok=True)
    vault = ArtifactStore(folder)
    vault.make()
    return vault


def a_folder(top: Path, files: Mapping[str, bytes]) -> Path:
    """A folder with these files."""
    for name, content in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return top


def contents(top: Path) -> dict[str, bytes]:
    """All files below, by their relative names."""
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def a_plan(vault: Path, **changes: object) -> str:
    usual = {
        "vault": str(vault),
        "node": NODE,
        "job": "j1",
        "budget": PLENTY,
        "keeps": True,
        "inputs": [],
        "outputs": [],
    }
    return json.dumps(usual | changes)


@dataclass(frozen=True)
class Ended:
    """What became of a process."""

    code: int
    text: str


def around(plan: str, argv: list[str], folder: Path, *, worker: str = "0") -> Ended:
    """`argv` in `folder`, through the program that brings inputs and keeps outputs, to its end."""
    return end_of(begin(plan, argv, folder, worker=worker))


def begin(plan: str, argv: list[str], folder: Path, *, worker: str = "0") -> "subprocess.Popen[str]":
    """The same, and it runs."""
    environment = {
        **os.environ,
        "GRUS_REPORT": str(folder / "report"),
        "GRUS_CONTROL": str(folder / "control"),
        "GRUS_WORKER": worker,
    }
    command = [sys.executable, "-m", "grus.artifacts.stage", plan, "--", *argv]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def said(folder: Path) -> dict[str, object]:
    """The last line of the report."""
    found = json.loads((folder / "report").read_text().splitlines()[-1])
    assert isinstance(found, dict)
    return found


def end_of(process: "subprocess.Popen[str]") -> Ended:
    text = process.communicate(timeout=300)[0]
    return Ended(process.returncode, text)
