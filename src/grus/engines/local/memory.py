"""Memory limit of a worker's process tree, and detection of kernel OOM kills. Light.

The sum of resident sizes is cheap but counts shared pages once per process, so it is only the alarm. The
verdict is the proportional size (Pss), which counts each page once. Otherwise a parent with eight forked data
loaders would be killed for memory that it does not use.

The watch on a virtual GPU's memory also sets the kernel's limit (RLIMIT_DATA), so that a program that
requests too much gets an allocation error, as from a GPU, and is not killed. The limit is set again at each
check, since the memory left is the tree's and the limits are those of single processes.
"""

import resource
import time
from collections.abc import Iterable

from grus.engines.local import process_kill
from grus.engines.local.processes import Process

SHORTEST = 0.1
LONGEST = 2.0
FILL_RATE = 4 << 30
"""Bytes a second: memory hardly fills faster, so a tree far below its cap is left in peace."""
MOST_TIME = 0.05
"""Part of a core that the watching may take."""
OOM_WINDOW = 5.0
"""Seconds: an unexplained SIGKILL is attributed to the kernel if it killed a process this short a time
before. A big process may take seconds to die, so the check covers one more window.
"""


class MemoryWatch:
    """Watches the descendants of this process against one cap; `cap` 0 watches nothing."""

    def __init__(self, cap: int, meaning: str, *, ends: bool = False) -> None:
        """Set up the watch; with `ends` the kernel limits memory to the cap."""
        self._cap = cap
        self._meaning = meaning
        self._ends = ends
        self._before = self._last = oom_kills()
        self.due = time.monotonic() + SHORTEST
        self._sample_due = time.monotonic() + OOM_WINDOW

    def check(self) -> str:
        """A sentence if the tree is above its cap now, else ""; sets when to look again."""
        begun = time.monotonic()
        used = 0
        if self._cap:
            tree = process_kill.below_me()
            used = sum(one.resident for one in tree)
            if used > self._cap or (self._ends and len(tree) > 1 and used > self._cap // 2):
                used = sum(proportional(one) for one in tree)
            if self._ends:
                leave(tree, max(0, self._cap - used), self._cap)
        if begun >= self._sample_due:
            self._before, self._last = self._last, oom_kills()
            self._sample_due = begun + OOM_WINDOW
        ended = time.monotonic()
        rest = max(0, self._cap - used) / FILL_RATE if self._cap else LONGEST
        self.due = ended + max((ended - begun) / MOST_TIME, min(LONGEST, max(SHORTEST, rest)))
        if used <= self._cap:
            return ""
        return f"used {_size(used)}, more than its {self.words}"

    @property
    def words(self) -> str:
        """Return the meaning of the cap, with its size."""
        return f"{self._meaning} of {_size(self._cap)}"

    def killed_by_kernel(self) -> bool:
        """Return whether the kernel has killed any process for memory in the last few seconds."""
        return oom_kills() > self._before


def leave(tree: Iterable[Process], more: int, most: int) -> None:
    """Allow each of these processes so many bytes more than it has, but never beyond `most`."""
    for one in tree:
        try:
            _, hard = resource.prlimit(one.pid, resource.RLIMIT_DATA)
            resource.prlimit(one.pid, resource.RLIMIT_DATA, (min(most, _data(one) + more), hard))
        except (OSError, ValueError):
            continue  # it has just ended, or has set a lower limit of its own


def _data(process: Process) -> int:
    """Return the bytes that count against RLIMIT_DATA: private writable memory."""
    with open(f"/proc/{process.pid}/status", "rb") as file:
        for line in file:
            if line.startswith(b"VmData:"):
                return int(line.split()[1]) << 10
    raise ProcessLookupError(process.pid)


def proportional(process: Process) -> int:
    """Bytes, each shared page divided among its sharers; the resident size where that is hidden.

    A process that ends has no memory any more, also while its former size is still known: otherwise data
    loaders that end together would count their shared pages once each.
    """
    try:
        with open(f"/proc/{process.pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) << 10
    except (FileNotFoundError, ProcessLookupError):  # it has ended, or is just ending
        return 0
    except OSError:  # not readable for us
        return process.resident
    return 0


def oom_kills() -> int:
    """Return the number of processes that the kernel has killed for memory since boot; 0 if unknown."""
    try:
        with open("/proc/vmstat", "rb") as file:
            for line in file:
                if line.startswith(b"oom_kill "):
                    return int(line.split()[1])
    except OSError:
        return 0
    return 0


def _size(number: int) -> str:
    return f"{number / 1e9:.2f} GB" if number >= 1e9 else f"{number / 1e6:.0f} MB"
