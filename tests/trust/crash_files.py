"""What a worker leaves for good – a checkpoint, an artefact – while it is killed at every line of the commit.

A child process commits, and kills itself at the n-th line of the code that does it; long writes go out in
pieces, each a line of its own. So it dies before and after every write, sync and rename, and between the
pieces of a write. Then the next one looks at what is there: all that was told to last does, what is there
under its name is whole, and the commit can be done again, after which nothing of the dead one is left.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from grus.artifacts import artifact_store, artifact_upload
from grus.elastic.training_state import checkpoint_files

PIECE = 1500
"""Bytes that the system takes of a write at most."""
MOST_LINES = 5000
CONTENT = {step: bytes([step]) * 4000 for step in range(1, 5)}
"""Of the checkpoint of each step."""

Commit = Callable[[Path], None]
Look = Callable[[Path, bool], None]
"""Raises AssertionError if something is wrong; hears whether the commit was told to be done."""


def deaths(folder: Path, make: Commit, commit: Commit, look: Look) -> Iterator[None]:
    """One for each line of `commit` at which a child was killed and all was well afterwards."""
    for at in range(1, MOST_LINES):
        place = folder / f"{commit.__name__}-{at}"
        place.mkdir()
        make(place)
        died, told = _die(commit, place, at)
        look(place, told)
        if not died:
            return
        yield
    raise AssertionError(f"a commit has no end after {MOST_LINES} lines")


def _die(commit: Commit, place: Path, at: int) -> tuple[bool, bool]:
    """Whether the child was killed before its end, and whether it had said that its commit is done."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _commit_until(commit, place, at, writer)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writer)
    told = os.read(reader, 1) == b"k"
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed or status == 0, f"the commit failed by itself at line {at}"
    return killed, told


def _commit_until(commit: Commit, place: Path, at: int, told: int) -> None:
    """In the child: commit, and die at that line of the code that commits."""
    files = {checkpoint_files.__file__, artifact_upload.__file__, artifact_store.__file__}
    lines = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            lines += 1
            if lines == at:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    whole = os.write
    os.write = lambda handle, data: whole(handle, memoryview(data)[:PIECE])
    sys.settrace(trace)
    commit(place)
    sys.settrace(None)
    whole(told, b"k")


# ------------------------------------------------------------------------------------------- checkpoints


def two_saved(folder: Path) -> None:
    """Two checkpoints, and a third one that is damaged."""
    for step in (1, 2, 3):
        save_step(folder, step)
    with open(folder / "step-000000000003" / checkpoint_files.STATE, "r+b") as file:
        file.truncate(10)


def save(folder: Path) -> None:
    """The run fell back to step 2, and is at 3 again: in place of the damaged one, and the oldest goes."""
    checkpoint_files.sweep(folder)
    save_step(folder, 3)
    checkpoint_files.remove(checkpoint_files.found(folder)[-1])


def resume(folder: Path, told: bool) -> None:
    """From the last complete one; then on to the next, with nothing left of whoever died."""
    whole = [one for one in checkpoint_files.found(folder) if checkpoint_files.is_whole(one)]
    assert whole, "nothing is left to resume from"
    step = checkpoint_files.verify(whole[0])
    assert step in ((3,) if told else (2, 3)), (step, told)
    assert (whole[0] / checkpoint_files.STATE).read_bytes() == CONTENT[step]
    save(folder)
    save_step(folder, 4)
    assert checkpoint_files.verify(checkpoint_files.found(folder)[0]) == 4
    assert not [name for name in os.listdir(folder) if name.startswith(".")], "left by the dead"


def save_step(folder: Path, step: int) -> None:
    def fill(sink: checkpoint_files.Sink) -> None:
        sink.write(CONTENT[step])

    checkpoint_files.place(folder, step, fill)


# --------------------------------------------------------------------------------------------- artefacts


def a_result(folder: Path) -> None:
    """A vault, and what a job has left."""
    for name in ("vault", "result"):
        (folder / name).mkdir()
    artifact_store.ArtifactStore(folder / "vault").make()
    for name in ("model", "figures"):
        (folder / "result" / name).write_bytes(name.encode() * 300)


def keep(folder: Path) -> None:
    artifact_upload.keep(artifact_store.ArtifactStore(folder / "vault"), folder / "result")


def kept(folder: Path, told: bool) -> None:
    """What was told to be kept is; kept again, it is whole and the same; the dead one's parts can go."""
    place = artifact_store.ArtifactStore(folder / "vault")
    wanted = artifact_upload.measured(folder / "result").digest
    assert place.whole(wanted) or not told
    assert artifact_upload.keep(place, folder / "result").digest == wanted
    assert place.whole(wanted)
    artifact_store.sweep_partial(place, before=artifact_store.now() + 60)
    assert list((folder / "vault" / artifact_store.PARTIAL).iterdir()) == []


COMMITS: tuple[tuple[Commit, Commit, Look], ...] = ((two_saved, save, resume), (a_result, keep, kept))
