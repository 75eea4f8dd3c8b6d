"""Batch loaders: batches of a plan, on the training device.

A loader lives as long as a run; its processes outlive every resize.

`Loader` reads a dataset with a length. Only the plan decides the samples and their random seeds, so the same
micro-batch is the same tensor on every worker, with any number of loader processes. `Stream` reads an
`IterableDataset`, which can guarantee less: each worker reads its own stream, and a sample may be used more
than once.

A new request for batches drops what was prefetched under the former membership; the loader's processes stay.
"""

import copy
import ctypes
import logging
import random
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from grus.elastic.data.sample_schedule import Micro, order, seed_of
from grus.elastic.training_loop.seeding import sow
from grus.model.errors import GrusError

log = logging.getLogger(__name__)

Collate = Callable[[list[Any]], Any]

_DATA = 0x64617461
"""Mixed into the seed: noise in the data and noise in the model must not be the same numbers."""
_EPOCHS_KEPT = 2
"""Permutations in memory: this epoch's, and the next one's when fetching ahead has reached it."""
_PR_SET_PDEATHSIG = 1


class DataError(GrusError):
    """The dataset cannot be read as requested, or a process that reads it died."""

    code: ClassVar[str] = "data"


class Loader:
    """A dataset with a length, read by plan."""

    def __init__(
        self,
        dataset: Dataset[Any],
        *,
        seed: int,
        collate: Collate | None = None,
        num_workers: int = 0,
        device: torch.device | str,
    ) -> None:
        self.samples = length(dataset)
        self._device = torch.device(device)
        self._calls = torch.zeros(1, dtype=torch.int64).share_memory_()
        self._queue = _Queue(seed, self.samples)
        self._loader: DataLoader[Any] = DataLoader(
            _Seeded(dataset, self._calls),
            batch_sampler=self._queue,  # type: ignore[arg-type]  # what it yields goes to `_Seeded` only
            collate_fn=_Collate(collate or default_collate),
            generator=torch.Generator(),  # otherwise each resize would advance the run's own generator
            **_processes(num_workers, self._device),
        )
        # Processes start now, not with the first batch: a copy of this process must not hold the group's
        # sockets, which have to close the moment that this process dies.
        self._source: Iterator[Any] = iter(self._loader)

    def batches(self, plan: Iterator[Micro]) -> Iterator[tuple[Micro, Any]]:
        """Each micro-batch of the plan with its data; the plan is read some micro-batches ahead.

        Calling it again ends all earlier iterators, and drops what was fetched for them.
        """
        self._calls += 1
        call = int(self._calls)
        self._queue.begin(plan, call)
        with _deaths_explained():
            self._source = iter(self._loader)
        return self._hand_out(call)

    def _hand_out(self, call: int) -> Iterator[tuple[Micro, Any]]:
        while True:
            if call != int(self._calls):
                raise RuntimeError("these batches were dropped: batches() was called again since")
            with _deaths_explained():
                data = next(self._source, _END)
            if data is _END:
                return
            yield self._queue.waiting.popleft(), moved(data, self._device)


class Stream:
    """An `IterableDataset`, read in micro-batches of `size`.
    Its end ends the epoch; the next epoch restarts it.

    Every worker reads its own stream from the beginning. Samples returned for a step that must be redone are
    returned again, so a stream loses no sample. A dataset that gives each rank another part is read by those
    ranks only, and the rest of a part is lost to the epoch when its worker leaves.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        *,
        size: int,
        collate: Collate | None = None,
        num_workers: int = 0,
        device: torch.device | str,
    ) -> None:
        self._device = torch.device(device)
        self._loader: DataLoader[Any] = DataLoader(
            _Chunks(dataset, size, collate or default_collate),
            batch_size=None,
            collate_fn=_as_it_is,
            generator=torch.Generator(),
            **_processes(num_workers, self._device),
        )
        self._source: Iterator[Any] = iter(self._loader)  # starts the processes, as in `Loader`
        self._epoch: int | None = None
        """Epoch that `_source` is a pass of."""
        self._unsure: list[tuple[int, int, Any]] = []
        """(step, samples, data) of the newest step: handed out, perhaps to be redone."""
        self._calls = 0
        log.warning(
            "%s is a stream (exact=False): each worker reads its own, and a sample is used at least once an "
            "epoch, not exactly once",
            type(dataset).__name__,
        )

    def batches(self, plan: Iterator[Micro]) -> Iterator[tuple[Micro, Any]]:
        """Yield each micro-batch of the plan with data, until the stream ends.

        The micro-batch has the actual number of samples: the last one of a stream may be smaller.
        """
        self._calls += 1
        return self._hand_out(plan, self._calls)

    def _hand_out(self, plan: Iterator[Micro], call: int) -> Iterator[tuple[Micro, Any]]:
        again: deque[tuple[int, Any]] | None = None
        for micro in plan:
            if call != self._calls:
                raise RuntimeError("these batches were dropped: batches() was called again since")
            if again is None:
                again = deque((count, data) for step, count, data in self._unsure if step >= micro.step)
                self._unsure = []
            found = again.popleft() if again else self._next(micro.epoch)
            if found is None:
                return
            self._unsure = [kept for kept in self._unsure if kept[0] == micro.step]
            self._unsure.append((micro.step, *found))
            yield replace(micro, stop=micro.start + found[0]), moved(found[1], self._device)

    def _next(self, epoch: int) -> tuple[int, Any] | None:
        """Return the next item of the epoch's pass; None at its end, on every further call."""
        with _deaths_explained():
            if self._epoch is not None and epoch != self._epoch:
                self._source = iter(self._loader)
            self._epoch = epoch
            found: tuple[int, Any] | None = next(self._source, None)
        return found


def length(dataset: Dataset[Any]) -> int:
    """Return the number of samples; refuse a dataset in which each sample cannot be requested once."""
    name = type(dataset).__name__
    if isinstance(dataset, IterableDataset) or not isinstance(dataset, Sized):
        raise DataError(
            f"the dataset {name} has no length and no sample numbers (it needs __len__ and __getitem__), so "
            "that nobody can use each sample exactly once. Give one that has both, or read it as a stream "
            "with exact=False: then a sample is used at least once an epoch"
        )
    if not len(dataset):
        raise DataError(f"the dataset {name} is empty: there is nothing to train on")
    return len(dataset)


def moved(data: Any, device: torch.device) -> Any:
    """The same with every tensor on the device; looks into tuples, lists, mappings, and what has `.to`."""
    if isinstance(data, torch.Tensor):
        return data.to(device, non_blocking=True)
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(moved(part, device) for part in data))
    if isinstance(data, (tuple, list)):
        return type(data)(moved(part, device) for part in data)
    if callable(getattr(data, "to", None)):
        return data.to(device)
    if isinstance(data, MutableMapping):
        clone = copy.copy(data)
        clone.update({key: moved(part, device) for key, part in data.items()})
        return clone
    return data


_END = object()


@dataclass(frozen=True, slots=True)
class _LoadRequest:
    """Request to a loader process for one micro-batch."""

    call: int
    seed: int
    samples: list[int]


class _Queue:
    """The plan as torch's batch sampler: read one by one, as fetching ahead needs it."""

    def __init__(self, seed: int, samples: int) -> None:
        self.waiting: deque[Micro] = deque()
        """Micro-batches requested and not returned yet, in order."""
        self._seed = seed
        self._samples = samples
        self._plan: Iterator[Micro] = iter(())
        self._call = 0
        self._orders: dict[int, np.ndarray[Any, np.dtype[np.int64]]] = {}

    def begin(self, plan: Iterator[Micro], call: int) -> None:
        self._plan, self._call = plan, call
        self.waiting.clear()

    def __iter__(self) -> Iterator[_LoadRequest]:
        for micro in self._plan:
            self.waiting.append(micro)
            samples = self._order(micro.epoch)[micro.start : micro.stop].tolist()
            yield _LoadRequest(self._call, seed_of(self._seed ^ _DATA, micro.step, micro.index), samples)

    def _order(self, epoch: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        if epoch not in self._orders:
            for old in sorted(self._orders)[: 1 - _EPOCHS_KEPT]:
                del self._orders[old]
            self._orders[epoch] = order(self._seed, epoch, self._samples)
        return self._orders[epoch]


class _Seeded(Dataset[Any]):
    """The user's dataset in a loader process: random generators are seeded again for each micro-batch."""

    def __init__(self, dataset: Dataset[Any], calls: torch.Tensor) -> None:
        self._dataset = dataset
        self._calls = calls

    def __getitems__(self, asked: _LoadRequest) -> list[Any] | None:
        if asked.call != int(self._calls):
            return None  # no longer waited for; a resize must not wait for it either
        _sow(asked.seed)
        many = getattr(self._dataset, "__getitems__", None)
        if many is not None:
            found: list[Any] = many(asked.samples)
            return found
        return [self._dataset[sample] for sample in asked.samples]


@dataclass(frozen=True, slots=True)
class _Collate:
    collate: Collate

    def __call__(self, items: list[Any] | None) -> Any:
        return None if items is None else self.collate(items)


class _Chunks(IterableDataset[tuple[int, Any]]):
    """A stream cut into micro-batches where it is read, each with the number of its samples."""

    def __init__(self, dataset: Dataset[Any], size: int, collate: Collate) -> None:
        self._dataset, self._size, self._collate = dataset, size, collate

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        samples = iter(self._dataset)
        while chunk := list(islice(samples, self._size)):
            yield len(chunk), self._collate(chunk)


def _as_it_is(data: Any) -> Any:
    return data


def _sow(seed: int) -> None:
    random.seed(seed)
    np.random.seed((seed & 0xFFFFFFFF, seed >> 32, 1))  # the 1: otherwise the same numbers as from `random`
    sow(seed)


def _processes(number: int, device: torch.device) -> dict[str, Any]:
    """Return the DataLoader options for its processes."""
    if not number:
        return {"num_workers": 0}
    # The signal is tied to the thread that starts the processes, so that thread must live as long.
    lasting = threading.current_thread() is threading.main_thread()
    return {
        "num_workers": number,
        "persistent_workers": True,
        "pin_memory": device.type == "cuda",
        "worker_init_fn": _die_with_the_parent if lasting else None,
    }


def _die_with_the_parent(_: int) -> None:
    """Kill this loader process as soon as its parent dies.

    torch checks only every five seconds, and a killed worker's files would stay open that long.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)


@contextmanager
def _deaths_explained() -> Iterator[None]:
    """Explain a dead loader process: torch's own message does not state what to do."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith("DataLoader worker (pid"):
            raise
        raise DataError(
            f"a process that loads data died: {error} Often it ran out of memory (main or shared): use fewer "
            "num_workers or smaller micro-batches; with num_workers=0 the dataset's own error shows"
        ) from error
