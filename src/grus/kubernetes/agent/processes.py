"""Processes of a pod: identify them, kill them reliably, and read which GPUs they were given."""

import os
import re
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

_MOST_PASSES = 50
_LONGEST = 256 << 10
"""Bytes that are read of an environment."""
_GPU = re.compile(r"(GPU|MIG)-[0-9A-Za-z/-]{1,80}")

Find = Callable[[], Iterable[int]]


class Processes:
    """Access to the node's processes by the /proc in which they are visible."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def kill(self, find: Find, uid: str, *, shared: bool) -> int:
        """Freeze all processes that are found until there is no new one, then kill them; return their number.

        A process that is not frozen first may start others faster than they are killed. The first process of
        a pod whose containers share it (`shared`) is spared: it belongs to the kubelet, and holds the pod
        together.
        """
        frozen: dict[int, int] = {}
        try:
            for _ in range(_MOST_PASSES):
                new = [pid for pid in find() if pid not in frozen and not (shared and self.holds_pod(pid))]
                if not new:
                    break
                for pid in new:
                    frozen[pid] = self._handle(pid, uid)
                    _send(frozen[pid], signal.SIGSTOP)
            for handle in frozen.values():
                _send(handle, signal.SIGKILL)
            return sum(handle >= 0 for handle in frozen.values())
        finally:
            for handle in frozen.values():
                if handle >= 0:
                    os.close(handle)

    def terminate(self, find: Find, uid: str, *, shared: bool) -> int:
        """Send SIGTERM to the first process of each container; return how many got it.

        SIGCONT follows so that a stopped process receives it. The parents of the first processes are not in
        the pod; an orphan's parent is the pod's own process.
        """
        pids = frozenset(find())
        spared = {pid for pid in pids if shared and self.holds_pod(pid)}
        first = [pid for pid in pids - spared if self._parent(pid) not in pids]
        handles = [handle for handle in (self._handle(pid, uid) for pid in first) if handle >= 0]
        for handle in handles:
            _send(handle, signal.SIGTERM)
            _send(handle, signal.SIGCONT)
            os.close(handle)
        return len(handles)

    def workers(self, find: Find, *, shared: bool) -> list[int]:
        """The living processes of the pod's containers."""
        return [pid for pid in find() if self._alive(pid) and not (shared and self.holds_pod(pid))]

    def gpus(self, pids: Iterable[int]) -> str:
        """UUIDs that the device plugin has given, with commas between; "" if none can be read."""
        for pid in pids:
            for entry in self._read(pid, "environ").split(b"\0"):
                name, _, value = entry.partition(b"=")
                if name == b"NVIDIA_VISIBLE_DEVICES":
                    found = value.decode(errors="replace").split(",")
                    if all(_GPU.fullmatch(one) for one in found):
                        return ",".join(found)
        return ""

    def holds_pod(self, pid: int) -> bool:
        """Return whether it is the first process of a namespace
        right below the node's: that of the pod itself.
        """
        for line in self._read(pid, "status").splitlines():
            if line.startswith(b"NSpid:"):
                numbers = line.split()[1:]
                return len(numbers) == 2 and numbers[1] == b"1"
        return False

    def _parent(self, pid: int) -> int:
        """0 if it is gone."""
        line = self._read(pid, "stat")
        words = line[line.rfind(b")") + 2 :].split()
        return int(words[1]) if len(words) > 1 else 0

    def _alive(self, pid: int) -> bool:
        """Return whether the process lives; zombies do not:
        collecting them is the container runtime's task.
        """
        line = self._read(pid, "stat")
        return bool(line) and line[line.rfind(b")") + 2 :][:1] not in (b"Z", b"X", b"x", b"")

    def _handle(self, pid: int, uid: str) -> int:
        """A handle of the process if it is (still) one of the pod; -1 if not: its number may mean another."""
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return -1
        groups = self._read(pid, "cgroup").decode(errors="replace")
        if uid in groups or uid.replace("-", "_") in groups:
            return handle
        os.close(handle)
        return -1

    def _read(self, pid: int, name: str) -> bytes:
        try:
            file = os.open(self._proc / str(pid) / name, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.read(file, _LONGEST)
        except OSError:
            return b""
        finally:
            os.close(file)


def _send(handle: int, number: signal.Signals) -> None:
    if handle >= 0:
        try:
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return
