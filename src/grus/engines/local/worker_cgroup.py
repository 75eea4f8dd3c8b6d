"""The control group that limits the CPU of one worker. Light: supervisors import it."""

import os
from contextlib import suppress

PERIOD_US = 100_000
"""Microseconds over which the kernel counts; its default."""
TRIES = 3


class CpuGroup:
    """The group of one worker; `home` is the group to which its supervisor returns."""

    __slots__ = ("home", "millicores", "path", "version")

    def __init__(self, version: int, path: str, home: str, millicores: int) -> None:
        self.version = version
        self.path = path
        self.home = home
        self.millicores = millicores

    def enter(self) -> str:
        """Make it, set its limit and move this process into it; "" or why that failed."""
        for attempt in range(TRIES):
            try:
                os.makedirs(self.path, exist_ok=True)
                self._limit()
                write(self.path, "cgroup.procs", str(os.getpid()))
                return ""
            except FileNotFoundError as error:  # another server has removed it
                if attempt + 1 == TRIES:
                    return str(error)
            except OSError as error:
                self._remove()
                return str(error)
        return ""

    def leave(self) -> None:
        """Move this process back and remove the group; one that stays is removed by a later start."""
        with suppress(OSError):
            write(self.home, "cgroup.procs", str(os.getpid()))
        self._remove()

    def _limit(self) -> None:
        quota = max(1000, self.millicores * PERIOD_US // 1000)  # the kernel's minimum is a millisecond
        if self.version == 2:
            write(self.path, "cpu.max", f"{quota} {PERIOD_US}")
        else:
            write(self.path, "cpu.cfs_period_us", str(PERIOD_US))
            write(self.path, "cpu.cfs_quota_us", str(quota))

    def _remove(self) -> None:
        with suppress(OSError):
            os.rmdir(self.path)


def write(folder: str, name: str, text: str) -> None:
    """Raises OSError. The kernel's files are there already; they take one write."""
    file = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)
