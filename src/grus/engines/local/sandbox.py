"""Sandbox of a worker, made by bubblewrap: it sees only its own processes and its part of the server's state.

In a sandbox the root is the machine's own, without the server's state (but for the worker's own folder, its
code and its artifact store), files that hold secrets, processes of others, and devices of others. Where
workers have the server's own Unix user the root is read-only too, except for a few folders: otherwise a job
could change the files that the server runs. The network, shared memory and the files that its Unix user may
read are unchanged.
"""

import glob
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grus.engines.local import state_files

PROGRAM = "bwrap"
_TRIAL = 10.0
"""Seconds that a box may take to show that it works."""
_AROUND = (
    *("--dev", "/dev", "--bind-try", "/dev/shm", "/dev/shm"),  # noqa: S108 - shared memory, as it was
    *("--unshare-pid", "--proc", "/proc"),
    *("--cap-drop", "ALL"),  # a root job could otherwise remove the mounts that hide the rest
)
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - as it was
_OF_ALL_GPUS = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "infiniband", "gdrdrv")
"""Devices in /dev that CUDA and NCCL open whichever GPU they use."""
_SOCKETS = ("/run/user", "/tmp/tmux-*", "/tmp/ssh-*", "/tmp/.X11-unix")  # noqa: S108 - names, not files
"""Folders in which programs of the same account listen for commands to run."""


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """The part of the machine that one worker needs in its box."""

    folder: str
    """The worker's own, in the engine's state."""
    workdir: str
    vault: str = ""
    """Its artifacts."""
    checkpoint: str = ""
    devices: tuple[str, ...] = ()
    """Files of its GPUs: /dev/nvidia0."""
    with_ipc: bool = False
    """True if it shares System V memory with the machine, as MPS may."""


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """Settings of all boxes of one engine."""

    program: str
    """Path of bubblewrap."""
    hidden: Path
    """A folder that is empty inside: the server's state."""
    code: Path | None = None
    """The folder in there with copies of code, each a workdir."""
    secrets: tuple[Path, ...] = ()
    """Files elsewhere that are empty inside."""
    same_user: bool = False
    """True if workers have the server's own Unix user."""
    writable: tuple[Path, ...] = ()
    """Folders that such workers can write to, besides their workdir, checkpoints and temporary files."""
    settings: Path | None = None
    """The folder of the server's settings."""
    protected: tuple[Path, ...] = ()
    """Folders that no workdir makes writable: the server's program."""

    def around(self, worker: SandboxSpec) -> list[str]:
        """Return the words in front of a worker's command.

        The worker's own folder is readable, because each new order is put there as a new file; only its
        report and its bell are writable.
        """
        real = os.path.realpath
        hidden, folder, workdir = real(self.hidden), real(worker.folder), real(worker.workdir)
        words = [self.program, *self._root(worker, workdir), *_AROUND]
        words += [] if worker.with_ipc else ["--unshare-ipc"]
        for device in (*(f"/dev/{name}" for name in _OF_ALL_GPUS), *worker.devices):
            words += ["--dev-bind-try", device, device]
        for place in _SOCKETS:
            words += [word for found in glob.glob(place) for word in ("--tmpfs", found)]
        words += ["--tmpfs", hidden]
        if worker.vault:
            words += ["--bind", worker.vault, worker.vault]
        if self._is_code(worker.workdir):
            words += ["--bind", workdir, workdir]
        words += ["--ro-bind", folder, folder]
        for name in (state_files.REPORT, state_files.BELL):
            path = os.path.join(folder, name)
            words += ["--bind-try", path, path]
        words += ["--remount-ro", hidden]
        for secret in map(real, self.secrets):
            if os.path.exists(secret):
                words += ["--ro-bind", os.devnull, secret]
        return [*words, "--chdir", workdir, "--"]

    def _is_code(self, workdir: str) -> bool:
        """True if it is a copy of code, by its name and in truth: a link to one is not."""
        if self.code is None:
            return False
        inside = Path(os.path.normpath(workdir)).is_relative_to(self.code)
        return inside and Path(os.path.realpath(workdir)).is_relative_to(os.path.realpath(self.code))

    def _root(self, worker: SandboxSpec, workdir: str) -> list[str]:
        if not self.same_user:
            return ["--bind", "/", "/"]
        words = ["--ro-bind", "/", "/"]
        for folder in (*_TEMPORARY, *map(os.path.realpath, self.writable)):
            words += ["--bind-try", folder, folder]
        if self.settings is not None:
            words += ["--ro-bind-try", (settings := os.path.realpath(self.settings)), settings]
        for folder in (workdir, *_saves_in(worker.checkpoint)):
            if not self._protects(Path(folder)):
                words += ["--bind-try", folder, folder]
        return words

    def _protects(self, folder: Path) -> bool:
        """True if a job that could write there could change what the server, or its account, runs."""
        home = Path(os.path.realpath(os.path.expanduser("~")))
        kept = [Path(os.path.realpath(one)) for one in (self.hidden, *self.protected)]
        inside = any(folder.is_relative_to(one) for one in kept)
        above = [home, *kept, *([Path(os.path.realpath(self.settings))] if self.settings else [])]
        around = any(one.is_relative_to(folder) for one in above)
        return inside or around or folder.as_posix().startswith(f"{home}/.")


def _saves_in(checkpoint: str) -> Iterable[str]:
    """Yield the folder in which a job saves; none if it names none, or there is none yet."""
    path = os.path.realpath(checkpoint)
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    return [folder] if checkpoint and os.path.isdir(folder) else []


def trouble(program: str | None = None) -> str:
    """Why no box can be made here, for people; empty if one can."""
    program = program or shutil.which(PROGRAM)
    if program is None:
        return f"there is no {PROGRAM} on PATH: install bubblewrap"
    return _tried([program, "--bind", "/", "/", *_AROUND, "--", "/bin/true"])


def _tried(words: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRIAL, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = done.stderr.decode(errors="replace").strip()
    return "" if done.returncode == 0 else f"{words[0]} says: {said or f'exit code {done.returncode}'}"
