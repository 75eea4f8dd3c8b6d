"""The one group object of a worker: it stays, while the communicators inside it come and go with the teams.

Everybody who exchanges anything holds this object and nothing below it. `abort` may be called by another
thread at any time and reaches every communicator, so that whoever waits is let go.
"""

import threading
import time

import torch

from grus.elastic import farewell
from grus.elastic.backends import Broken, Communicator, Pending


class _Done:
    """What a worker that is alone waits for."""

    def wait(self) -> None:
        return


def _drop(communicators: list[Communicator]) -> None:
    """Let the last reference go in another thread: the library may wait then for an exchange without end."""
    if communicators:
        farewell.start(communicators.clear, "drop")


class Group:
    def __init__(self) -> None:
        self.number = 0
        """Of the present team."""
        self.rank = 0
        self.world = 1
        self.settled_at = 0.0
        """When an exchange last came to its end, by `time.monotonic`."""
        self._inner: list[Communicator] = []
        self._aborted = False
        self._lock = threading.Lock()

    @property
    def aborted(self) -> bool:
        return self._aborted

    def install(self, communicator: Communicator | None, number: int, rank: int, world: int) -> None:
        """Begin with another team; None for a team of one."""
        with self._lock:
            old, self._inner = self._inner, [] if communicator is None else [communicator]
            self._aborted = False
            self.number, self.rank, self.world = number, rank, world
        _drop(old)

    def also(self, communicator: Communicator) -> None:
        """Have a communicator of some of the members (a sub-group) aborted with the rest."""
        with self._lock:
            self._inner.append(communicator)

    def abort(self, before: int) -> None:
        """Let go of everybody who waits, if the present team is older than number `before`."""
        with self._lock:
            if self.number >= before:
                return  # formed anew in the meantime
            self._aborted = True  # before anybody is let go: they must find it set
            inner = list(self._inner)
        for communicator in inner:
            communicator.abort()

    def leave(self) -> None:
        """Let go of the team: its connections close, so that whoever waits for this worker learns of it."""
        self.abort(before=self.number + 1)
        with self._lock:
            old, self._inner = self._inner, []
        _drop(old)

    def all_reduce(self, tensor: torch.Tensor) -> Pending:
        """Begin to sum in place over the team."""
        return self._main().all_reduce(tensor) if self.world > 1 else _Done()

    def broadcast(self, tensor: torch.Tensor, source: int) -> Pending:
        return self._main().broadcast(tensor, source) if self.world > 1 else _Done()

    def settle(self) -> None:
        """Return when all exchanges so far are done and true; raises Broken otherwise."""
        if self._aborted:
            raise Broken("aborted")
        if self.world > 1:
            self._main().settle()
        self.settled_at = time.monotonic()

    def sum(self, numbers: list[float], device: torch.device) -> list[float]:
        """The sums of a few numbers over the team, settled."""
        tensor = torch.tensor(numbers, dtype=torch.float64, device=device)
        self.all_reduce(tensor).wait()
        self.settle()
        return tensor.tolist()

    def _main(self) -> Communicator:
        if self._aborted:
            raise Broken("aborted")
        return self._inner[0]
