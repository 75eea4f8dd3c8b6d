"""A box around each worker, made by bubblewrap: it sees no process but its own, and of the server's state
only what belongs to it.

In a box the root is the machine's own, with three things taken away: the server's state, but for the worker's
own folder, its code and the vaults of artefacts; the files that hold secrets; and all processes of others.
The network, the GPUs, shared memory and the files of its Unix user are as they were.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grus.engines.local import layout

PROGRAM = "bwrap"
_TRIAL = 10.0
"""Seconds that a box may take to show that it works."""
_AROUND = (
    *("--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--unshare-pid", "--proc", "/proc"),
    *("--cap-drop", "ALL"),  # a job of root's could else take away what hides the rest
)


@dataclass(frozen=True, slots=True)
class Boxes:
    """How boxes are made for one engine."""

    program: str
    """Path of bubblewrap."""
    hidden: Path
    """A folder that is empty inside: the server's state."""
    shared: tuple[Path, ...] = ()
    """Folders in there that jobs use together."""
    secrets: tuple[Path, ...] = ()
    """Files elsewhere that are empty inside."""

    def around(self, folder: str, workdir: str) -> list[str]:
        """The words in front of a worker's command; `folder` is the worker's own in the engine's state.

        Its own folder can be read, for what it is told is put there anew each time; only its report and its
        bell can be written to.
        """
        real = os.path.realpath
        hidden, folder, workdir = real(self.hidden), real(folder), real(workdir)
        words = [self.program, *_AROUND, "--tmpfs", hidden]
        for shared in map(real, self.shared):
            words += ["--bind-try", shared, shared]
        if Path(workdir).is_relative_to(hidden):
            words += ["--bind", workdir, workdir]
        words += ["--ro-bind", folder, folder]
        for name in (layout.REPORT, layout.BELL):
            path = os.path.join(folder, name)
            words += ["--bind-try", path, path]
        for secret in map(real, self.secrets):
            if os.path.exists(secret):
                words += ["--ro-bind", os.devnull, secret]
        return [*words, "--chdir", workdir, "--"]


def trouble(program: str | None = None) -> str:
    """Why no box can be made here, for people; empty if one can."""
    program = program or shutil.which(PROGRAM)
    if program is None:
        return f"there is no {PROGRAM} on PATH: install bubblewrap"
    return _tried([program, *_AROUND, "--", "/bin/true"])


def _tried(words: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRIAL, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = done.stderr.decode(errors="replace").strip()
    return "" if done.returncode == 0 else f"{words[0]} says: {said or f'exit code {done.returncode}'}"
