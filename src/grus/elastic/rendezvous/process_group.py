"""Group object of a worker: it lives as long as the worker, while the communicators inside it change.

All code that exchanges anything holds this object and nothing below it. `abort` may be called by another
thread at any time and reaches every communicator, so that all waiting threads are unblocked.
"""

import threading
import time

import torch

from grus.elastic.rendezvous.collective_backends import Broken, Communicator, Pending
from grus.elastic.training_loop import shutdown


class _Done:
    """Completed operation that a worker that is alone waits for."""

    def wait(self) -> None:
        return


def _drop(communicators: list[Communicator]) -> None:
    """Drop the last reference in another thread: the library may wait then for an exchange without end."""
    if communicators:
        shutdown.start(communicators.clear, "drop")


class Group:
    def __init__(self) -> None:
        self.number = 0
        """Number of the present worker group."""
        self.rank = 0
        self.world = 1
        self.settled_at = 0.0
        """Time of the last completed exchange, by `time.monotonic`."""
        self._inner: list[Communicator] = []
        self._aborted = False
        self._lock = threading.Lock()

    @property
    def aborted(self) -> bool:
        return self._aborted

    def install(self, communicator: Communicator | None, number: int, rank: int, world: int) -> None:
        """Start with another worker group; no communicator (None) for a group of one."""
        with self._lock:
            old, self._inner = self._inner, [] if communicator is None else [communicator]
            self._aborted = False
            self.number, self.rank, self.world = number, rank, world
        _drop(old)

    def abort(self, before: int) -> None:
        """Unblock all waiting threads if the present worker group is older than number `before`."""
        with self._lock:
            if self.number >= before:
                return  # formed again in the meantime
            self._aborted = True  # before any thread is unblocked: it must find the flag set
            inner = list(self._inner)
        for communicator in inner:
            communicator.abort()

    def leave(self) -> None:
        """Leave the worker group: its connections close, so that workers waiting for this one notice."""
        self.abort(before=self.number + 1)
        with self._lock:
            old, self._inner = self._inner, []
        _drop(old)

    def all_reduce(self, tensor: torch.Tensor) -> Pending:
        """Start an in-place sum over the worker group."""
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
        """Return the sums of a few numbers over the worker group, settled."""
        tensor = torch.tensor(numbers, dtype=torch.float64, device=device)
        self.all_reduce(tensor).wait()
        self.settle()
        return tensor.tolist()

    def _main(self) -> Communicator:
        if self._aborted:
            raise Broken("aborted")
        return self._inner[0]
