"""A worker that is killed again and again while it stores its output."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

from grus.artifacts.artifact_store import ArtifactStore
from grus.artifacts.cache import fetch
from grus.artifacts.manifest import CHUNK
from grus.model.worker_reports import stored_outputs
from tests.artifacts.builders import (
    NODE,
    PLENTY,
    a_plan,
    around,
    begin,
    contents,
    end_of,
    said,
)
from tests.server.process import eventually

PARTS = 6


MAKE = f"""
import os
for number in range({PARTS}):
    with open(os.path.join(os.environ["GRUS_OUTPUT_DATA"], str(number)), "wb") as file:
        file.write(bytes([number]) * ({CHUNK} + 1))
"""


def test_a_worker_killed_again_and_again_while_it_keeps_its_output_keeps_it_in_the_end(
    vault: ArtifactStore, tmp_path: Path
) -> None:
    plan = a_plan(vault.root, outputs=[["data", ""]])
    program = [sys.executable, "-c", MAKE]
    for count in range(1, 2 * PARTS, 3):
        process = begin(plan, program, tmp_path)
        eventually(partial(_ended_or_has, process, vault, count), "it has ended, or has kept so many parts")
        process.kill()
        end_of(process)
        assert all(vault.whole(digest) for digest, _ in vault.kept("manifests"))
    assert around(plan, program, tmp_path).code == 0
    (artefact,) = stored_outputs.artefacts(json.dumps(said(tmp_path)))
    lent = fetch(vault, NODE, artefact.digest, PLENTY)
    assert contents(lent.path) == {str(one): bytes([one]) * (CHUNK + 1) for one in range(PARTS)}
    lent.give_back()


def _ended_or_has(process: "subprocess.Popen[str]", vault: ArtifactStore, count: int) -> bool:
    return process.poll() is not None or len(list(vault.kept("chunks"))) >= count
