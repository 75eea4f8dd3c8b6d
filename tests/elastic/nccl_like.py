"""A backend that fails as NCCL does, on top of gloo: for tests, on machines without GPUs.

    GRUS_BACKEND=tests.elastic.nccl_like:NcclLike

- A peer that is gone or hung raises nothing: whoever exchanges with it waits for ever.
- Only `abort`, called by another thread, lets it go; `wait` returns then as if all were well.
- What was under way is garbage then: numbers that look like numbers.
- To connect to a peer that is not there blocks until `abort`.

Only `settle` tells: it raises Broken after an abort.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from grus.elastic.rendezvous.collective_backends import Broken, Communicator, Gloo, Pending, Store
from grus.elastic.training_loop import shutdown


class NcclLike:
    def new(self, store: Store, rank: int, world: int, host: str, device: torch.device) -> Communicator:
        return _Communicator(Gloo().new(store, rank, world, host, device))


class _Communicator:
    def __init__(self, inner: Communicator) -> None:
        self._inner = inner
        self._aborted = threading.Event()

    def connect(self) -> None:
        """Blocks until all peers are here; an error of gloo's is silence here."""
        outcome: list[bool] = []
        done = threading.Event()

        def connect() -> None:
            try:
                self._inner.connect()
                outcome.append(True)
            except (Broken, RuntimeError):
                outcome.append(False)
            done.set()

        shutdown.start(connect, "connect")
        while not self._aborted.wait(0.001):
            if done.is_set() and outcome[0]:
                return
        raise Broken("aborted")

    def all_reduce(self, tensor: torch.Tensor) -> Pending:
        return _Pending(lambda: self._inner.all_reduce(tensor), tensor, self._aborted)

    def broadcast(self, tensor: torch.Tensor, source: int) -> Pending:
        return _Pending(lambda: self._inner.broadcast(tensor, source), tensor, self._aborted)

    def settle(self) -> None:
        if self._aborted.is_set():
            raise Broken("aborted")

    def abort(self) -> None:
        self._aborted.set()
        self._inner.abort()


class _Pending:
    def __init__(self, begin: Callable[[], Pending], tensor: torch.Tensor, aborted: threading.Event) -> None:
        self._tensor = tensor
        self._aborted = aborted
        self._under_way: Any = None
        with suppress(Broken):  # silence: whoever waits will wait
            self._under_way = begin()

    def wait(self) -> None:
        if self._under_way is not None:
            try:
                self._under_way.wait()
            except Broken:
                pass
            else:
                return
        self._aborted.wait()
        _spoil(self._tensor)


def _spoil(tensor: torch.Tensor) -> None:
    """Half of a sum looks like this: the right size, some of it old, some of it wrong."""
    flat = tensor.detach().reshape(-1)
    flat.add_(torch.arange(flat.numel(), device=flat.device).remainder_(7).to(flat.dtype))
