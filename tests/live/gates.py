"""Gates hold jobs until a test lets them go: no job of these tests ends because of time.

A job that reads its gate (`cat gate`) waits in the kernel. The gate is a named pipe that the test keeps open;
to open the gate, an empty file takes its name and the pipe is closed. Those who wait find the end, and so do
those who come later, such as a job that was paused meanwhile. If the test itself dies, every gate opens.
"""

import os
from pathlib import Path


class Gate:
    """One job's gate; shut until `open`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        # Also for writing, so that nobody who reads finds the end before it is closed.
        self._pipe: int | None = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def open(self) -> None:
        """Let everybody go who waits here, now and later. Idempotent."""
        if self._pipe is None:
            return
        empty = self.path.with_suffix(".open")
        empty.touch()
        empty.replace(self.path)
        os.close(self._pipe)
        self._pipe = None
