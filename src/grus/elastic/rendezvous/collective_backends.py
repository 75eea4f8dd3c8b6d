"""Communication backends: the few operations that the elastic runtime needs of gloo or NCCL.

A communicator belongs to one worker group and ends with it. The two libraries fail in opposite ways, and all
code above this module is written for the worse one:

- gloo raises an error in every exchange as soon as a peer is gone.
- NCCL raises nothing. The kernel waits without limit; only `abort`, called by another thread, unblocks it,
  and then the results are garbage. So no result of an exchange may be used before `settle` has returned.
"""

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any, Protocol

import torch
import torch.distributed

dist: Any = torch.distributed
"""Most of what is used of it here has no types."""
Store = Any
"""A key-value store of `torch.distributed`."""
LOOK = timedelta(seconds=0.1)
"""Interval at which a wait checks whether it was aborted."""
CONNECT = timedelta(seconds=60)
"""Time-out of connections: live peers answer within milliseconds; one that has died since never answers."""
OLDEST_NCCL = (2, 19)
"""Oldest usable version: before it, a communicator that is being made cannot be aborted."""


class Broken(Exception):
    """The exchange cannot be finished: a peer is gone, or it was aborted. The step must be redone."""


class Pending(Protocol):
    """An exchange under way."""

    def wait(self) -> None:
        """Return when operations that follow see the result, which may be garbage until `settle`."""
        ...


class Communicator(Protocol):
    """Connections of one worker to the others of its group."""

    def connect(self) -> None:
        """Connect to all peers. May block until `abort`; raises Broken."""
        ...

    def all_reduce(self, tensor: torch.Tensor) -> Pending:
        """Begin to sum in place over all workers."""
        ...

    def broadcast(self, tensor: torch.Tensor, source: int) -> Pending:
        """Begin to copy the source's tensor to all."""
        ...

    def settle(self) -> None:
        """Return when all operations started so far are complete
        and valid on this host; raises Broken if aborted.
        """
        ...

    def abort(self) -> None:
        """Unblock all waiting threads. Callable from any thread, any number of times."""
        ...


class Backend(Protocol):
    """Makes communicators."""

    def new(self, store: Store, rank: int, world: int, host: str, device: torch.device) -> Communicator: ...


def backend_for(device: torch.device, name: str | None = None) -> Backend:
    """The named one ("gloo", "nccl", or "module:Class"), or the one that suits the device."""
    name = name or os.environ.get("GRUS_BACKEND") or ("nccl" if device.type == "cuda" else "gloo")
    if name == "gloo":
        return Gloo()
    if name == "nccl":
        return Nccl()
    module, _, member = name.partition(":")
    if not member:
        raise ValueError(f"there is no backend {name!r}: say gloo, nccl or module:Class")
    found: Backend = getattr(import_module(module), member)()
    return found


class _OfTorch(ABC):
    """Common base of communicators on a torch process group: it starts the exchanges."""

    _group: Any

    def __init__(self) -> None:
        self._aborted = threading.Event()

    def all_reduce(self, tensor: torch.Tensor) -> Pending:
        return self._begin(lambda: self._group.allreduce([tensor]))

    def broadcast(self, tensor: torch.Tensor, source: int) -> Pending:
        options = dist.BroadcastOptions()
        options.rootRank = source
        return self._begin(lambda: self._group.broadcast([tensor], options))

    def _begin(self, exchange: Callable[[], Any]) -> Pending:
        if self._aborted.is_set():
            raise Broken("aborted")
        try:
            return self._pending(exchange())
        except RuntimeError as error:
            raise Broken(str(error)) from error

    @abstractmethod
    def _pending(self, work: Any) -> Pending: ...


# ------------------------------------------------------------------------------------------------- gloo


class Gloo:
    def __init__(self, timeout: float = 1800.0) -> None:
        self._timeout = timeout

    def new(self, store: Store, rank: int, world: int, host: str, device: torch.device) -> Communicator:  # noqa: ARG002 - gloo copies to the host by itself
        return _GlooCommunicator(store, rank, world, host, self._timeout)


class _GlooCommunicator(_OfTorch):
    def __init__(self, store: Store, rank: int, world: int, host: str, timeout: float) -> None:
        super().__init__()
        self._where = (store, rank, world)
        self._host = host
        self._timeout = timeout
        self._group = None

    def connect(self) -> None:
        options = dist.ProcessGroupGloo._Options()
        options._timeout = CONNECT
        options._devices = [dist.ProcessGroupGloo.create_device(hostname=self._host)]
        try:
            self._group = dist.ProcessGroupGloo(*self._where, options)
            self._group.set_timeout(timedelta(seconds=self._timeout))
        except RuntimeError as error:
            raise Broken(str(error)) from error
        # The first exchanges set up threads and buffers; here the running worker group does not wait for it.
        self.all_reduce(torch.zeros(1)).wait()
        self.broadcast(torch.zeros(1), 0).wait()

    def _pending(self, work: Any) -> Pending:
        return _GlooPending(work, self._aborted)

    def settle(self) -> None:
        if self._aborted.is_set():
            raise Broken("aborted")

    def abort(self) -> None:
        self._aborted.set()


class _GlooPending:
    def __init__(self, work: Any, aborted: threading.Event) -> None:
        self._work = work
        self._aborted = aborted

    def wait(self) -> None:
        while True:
            over = self._work.is_completed()
            try:
                self._work.wait(LOOK)
                return
            except RuntimeError as error:
                # Not over before: perhaps only this wait took too long. The next one shows.
                if over:
                    raise Broken(str(error)) from error
            if self._aborted.is_set():
                # The library still holds the tensor and may write to it: the caller must not use it
                # again. The library releases it at its own time-out.
                raise Broken("aborted")


# ------------------------------------------------------------------------------------------------- NCCL


class Nccl:
    """NCCL backend. Not verified on GPUs by us; `python
    -m grus.elastic.selftest --backend nccl` does that.
    """

    def __init__(self) -> None:
        version = torch.cuda.nccl.version()
        if version < OLDEST_NCCL:
            raise RuntimeError(
                f"NCCL {'.'.join(map(str, version))} cannot abort a communicator that is being made; "
                f"{'.'.join(map(str, OLDEST_NCCL))} or newer is needed"
            )
        # torch's own watchdog would end the process when a peer is gone; here another of our threads acts.
        os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"
        os.environ["TORCH_NCCL_ENABLE_MONITORING"] = "0"

    def new(self, store: Store, rank: int, world: int, host: str, device: torch.device) -> Communicator:  # noqa: ARG002 - NCCL chooses its interface by NCCL_SOCKET_IFNAME
        return _NcclCommunicator(store, rank, world, device)


class _NcclCommunicator(_OfTorch):
    def __init__(self, store: Store, rank: int, world: int, device: torch.device) -> None:
        super().__init__()
        self._device = device
        options = dist.ProcessGroupNCCL.Options()
        options.config.blocking = False
        self._group = dist.ProcessGroupNCCL(store, rank, world, options)

    def connect(self) -> None:
        try:
            # A stream of its own: training may go on meanwhile, and one must not wait for the other.
            with torch.cuda.stream(torch.cuda.Stream(self._device)):
                self._group.eager_connect_single_device(self._device)
                # A first exchange: without blocking, only that shows that all members are connected.
                self.all_reduce(torch.zeros(1, device=self._device)).wait()
                self.settle()
        except RuntimeError as error:
            raise Broken(str(error)) from error

    def _pending(self, work: Any) -> Pending:
        found: Pending = work
        return found

    def settle(self) -> None:
        """Look at an event instead of waiting for it: a wait could not be left after an abort."""
        done = torch.cuda.Event()
        done.record(torch.cuda.current_stream(self._device))
        while not done.query():
            if self._aborted.is_set():
                break
            time.sleep(2e-5)
        if self._aborted.is_set():
            raise Broken("aborted")

    def abort(self) -> None:
        if not self._aborted.is_set():
            self._aborted.set()  # first: an unblocked thread must find it set
            self._group.abort()
