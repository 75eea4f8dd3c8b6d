"""Inputs of a training loop's body: a micro-batch, or a whole step of them."""

from collections.abc import Callable, Iterator
from typing import Any

from grus.elastic.data.sample_schedule import Micro


class Batch:
    """A micro-batch. `x` and `y` are the first two parts of the dataset's output; `data` is all of it.

    Unpacks like its data: `images, labels = batch`.
    """

    __slots__ = ("data", "micro")

    def __init__(self, micro: Micro, data: Any) -> None:
        self.micro = micro
        self.data = data

    @property
    def x(self) -> Any:
        return self.data[0] if isinstance(self.data, list | tuple) else self.data

    @property
    def y(self) -> Any:
        return self.data[1]

    def __getitem__(self, key: Any) -> Any:
        return self.data[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.data)

    def __len__(self) -> int:
        """Samples in it."""
        return self.micro.stop - self.micro.start


class Step:
    """This worker's micro-batches of one step; may be iterated once per optimizer."""

    def __init__(self, batches: list[Batch], enter: Callable[[Batch, int], None]) -> None:
        self._batches = batches
        self._enter = enter
        self._walks = 0

    def __iter__(self) -> Iterator[Batch]:
        walk, self._walks = self._walks, self._walks + 1
        for batch in self._batches:
            self._enter(batch, walk)
            yield batch

    def __len__(self) -> int:
        return len(self._batches)
