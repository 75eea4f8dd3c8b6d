"""Plants inside the launcher and its supervisors, which are processes without site-packages. Light.

Nothing but the standard library and the engine's own light modules may be imported here.
"""

import os
import signal
from contextlib import suppress

from grus.engines.local import forkserver, process_kill, state_files, supervisor


def kill_the_group_only() -> None:
    """The end of the main process and of its group is taken for the end of all."""

    def planted(self: supervisor.Supervisor) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(os.getpgid(self._main), signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(self._main, signal.SIGKILL)
        while self._status is None and not process_kill.reap(self._ended):
            self._poll.poll(20)

    supervisor.Supervisor._kill_all = planted  # type: ignore[method-assign]  # that is the plant


def start_whatever_is_there() -> None:
    """A worker's folder that is there already is made anew, and the worker started in it."""

    def planted(state: str, stage: str, name: str, spec: bytes) -> str:
        folder = os.path.join(state, state_files.WORKERS, name)
        os.makedirs(folder, 0o711, exist_ok=True)
        for old in (state_files.SPEC, state_files.CLAIM, state_files.STARTED, state_files.EXIT):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, old))
        state_files.create_file(folder, state_files.SPEC, spec)
        return ""

    forkserver._place = planted
