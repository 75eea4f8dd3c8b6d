"""Dynamic batching: requests that wait are computed together, while the model works on earlier ones.

One thread computes, because a model is not made for several. No request waits for others: all that are there
are taken, up to `most` samples. A request with more than that goes to the end of the line after each piece,
so that it delays no other request. Only samples of the same shape and type are batched together, and a batch
that fails is tried again one by one, so that one request's error never affects another.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_iter, tree_map

MOST_WAITING = 1024
"""Requests that wait at most; a further one is asked to retry later."""

Compute = Callable[[Tensor], Any]


class Busy(Exception):
    """More requests wait than can be answered soon."""


@dataclass(slots=True, eq=False)
class _PendingRequest:
    """A request in the line, and as much of its answer as is there."""

    pieces: deque[Tensor]
    future: "Future[Any]" = field(default_factory=Future)
    """Future of the answer; may be canceled until its last piece is computed."""
    parts: list[Any] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Return whether it is computed in one go."""
        return len(self.pieces) == 1 and not self.parts


class Batcher:
    """Batching thread with its queue. `close` lets it finish the queued requests."""

    def __init__(self, compute: Compute, most: int) -> None:
        self._compute = compute
        self._most = most
        self._line: deque[_PendingRequest] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)
        self._thread.start()

    def submit(self, samples: Tensor) -> "Future[Any]":
        """Return the model's output for these samples. Raises Busy."""
        asked = _PendingRequest(deque(samples.split(self._most)))
        with self._changed:
            if len(self._line) >= MOST_WAITING or self._closing:
                raise Busy
            self._line.append(asked)
            self._changed.notify()
        return asked.future

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while together := self._next():
            wanted = [one for one in together if not one.future.cancelled()]
            if wanted:
                self._answer(wanted)

    def _next(self) -> list[_PendingRequest]:
        """The first in the line and those behind it that go with it; empty at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._line or self._closing)
            if not self._line:
                return []
            first = self._line.popleft()
            found, rows = [first], len(first.pieces[0])
            while first.whole and self._line and self._line[0].whole:
                following = self._line[0].pieces[0]
                rows += len(following)
                if rows > self._most or not _alike(following, first.pieces[0]):
                    break
                found.append(self._line.popleft())
            return found

    def _answer(self, together: Sequence[_PendingRequest]) -> None:
        try:
            samples = [one.pieces[0] for one in together]
            parts = _cut(self._compute(torch.cat(samples)), [len(one) for one in samples])
        except Exception as error:  # noqa: BLE001 - the user's model may raise anything: whoever asked is told
            self._failed(together, error)
            return
        for one, part in zip(together, parts, strict=True):
            one.pieces.popleft()
            one.parts.append(part)
            if one.pieces:
                with self._changed:
                    self._line.append(one)
            else:
                _settle(one)

    def _failed(self, together: Sequence[_PendingRequest], error: Exception) -> None:
        if len(together) > 1:
            for one in together:
                self._answer([one])
        elif together[0].future.set_running_or_notify_cancel():
            together[0].future.set_exception(error)


def _settle(one: _PendingRequest) -> None:
    """All of its pieces are there."""
    if not one.future.set_running_or_notify_cancel():
        return
    try:
        joined = one.parts[0] if len(one.parts) == 1 else tree_map(lambda *all_: torch.cat(all_), *one.parts)
        one.future.set_result(joined)
    except Exception as error:  # noqa: BLE001 - what the model gave cannot be put together: whoever asked is told
        one.future.set_exception(error)


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.shape[1:] == other.shape[1:] and one.dtype == other.dtype


def _cut(whole: Any, rows: list[int]) -> list[Any]:
    """Return each request's part of an output. Raises ValueError if the output has not one row per sample."""
    if len(rows) == 1:
        return [whole]
    total = sum(rows)
    if any(not isinstance(one, Tensor) or one.dim() == 0 or len(one) != total for one in tree_iter(whole)):
        raise ValueError("the model gives no row a sample")
    found, start = [], 0
    for count in rows:
        found.append(tree_map(lambda one, a=start, b=start + count: one[a:b], whole))
        start += count
    return found
