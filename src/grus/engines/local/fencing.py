"""Fence of a state folder: which engine object may act on it.

It uses no lock, so a stopped process can never block its successor.

Each engine object has a staging folder of its own under its leader term (`epoch`). A takeover makes a new one
and removes all of earlier (or equal) terms; an engine that finds its own folder gone has been fenced. Starts
go through that folder by rename, so for them the fence is in the write itself.
"""

import os
import secrets
import shutil
import stat
from pathlib import Path

from grus.engines.local import state_files
from grus.model.errors import Fenced


def take_over(state: Path, epoch: int) -> Path:
    """Fence all earlier engines and return the staging folder; raises Fenced if a later term has started."""
    epochs = state / state_files.EPOCHS
    own = epochs / str(epoch)
    own.mkdir(exist_ok=True)
    known = [int(entry.name) for entry in epochs.iterdir() if entry.name.isdigit()]
    if max(known) > epoch:
        raise Fenced(f"epoch {max(known)} has begun; epoch {epoch} may not act any more")
    for earlier in known:
        if earlier < epoch:
            discard(state, epochs / str(earlier))
    stage = own / secrets.token_hex(8)
    try:
        for other in own.iterdir():
            discard(state, other)
        stage.mkdir()
    except FileNotFoundError:
        raise Fenced(f"a later epoch than {epoch} has just begun") from None
    return stage


def highest(state: Path) -> int:
    """The highest epoch that an engine of this folder was opened under; 0 if none was."""
    try:
        names = os.listdir(state / state_files.EPOCHS)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    return max((int(name) for name in names if name.isdigit()), default=0)


def check(stage: Path) -> None:
    """Raise Fenced if a newer engine has taken over."""
    if not os.path.exists(stage):
        raise Fenced("a newer control plane has taken over this engine's state; stop acting")


def discard(state: Path, path: Path) -> None:
    """Move a file or a folder away at once, then delete it; a missing one is no error."""
    aside = state / state_files.TRASH / secrets.token_hex(8)
    try:
        path.rename(aside)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(aside.lstat().st_mode):
        shutil.rmtree(aside, ignore_errors=True)
    else:  # rmtree would open a FIFO, and wait for a writer without limit
        aside.unlink(missing_ok=True)
