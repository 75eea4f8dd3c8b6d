"""Membership of this process under Horovod: its one group, and the way it joins worker groups.

A worker joins when it first needs the others (`elastic.run`, or an exchange), not in `init`: workers that are
training continue while a new one still builds its model. Until then `rank` and `size` are the values the
worker was started with; `elastic.run` calls the reset callbacks when the values turn out to differ.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from grus.elastic.adapters.horovod.errors import HorovodInternalError
from grus.elastic.rendezvous.collective_backends import Broken
from grus.elastic.rendezvous.membership import Membership, find_membership
from grus.elastic.rendezvous.process_group import Group

HANG_AFTER = 30.0
"""Seconds without an answer from the others before this worker complains."""


class World:
    """This process's membership; lives as long as the process. `group.number` is 0 until the first join."""

    def __init__(self) -> None:
        self.initialized = False
        self.group = Group()
        self._membership: Membership | None = None

    @property
    def joined(self) -> bool:
        return self.group.number > 0

    @property
    def device(self) -> torch.device:
        """Device on which the runtime exchanges its own small tensors."""
        if torch.cuda.is_available():
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("cpu")

    @property
    def membership(self) -> Membership:
        if self._membership is None:
            self._membership = find_membership(self.group, self.device, backend=None, hang_after=HANG_AFTER)
        return self._membership

    def join(self) -> None:
        """Form the next worker group. Raises Left when this
        worker is not in it, Broken when there is no next one.
        """
        self.membership.join()

    @contextmanager
    def together(self) -> Iterator[Group]:
        """Yield the group for an exchange; join first if needed. A lost worker becomes Horovod's error."""
        needs_init()
        if not self.joined:
            self.join()
        try:
            with self.membership.waiting():
                yield self.group
                self.group.settle()
        except Broken as error:
            raise HorovodInternalError(f"an exchange failed: {error}") from error


world = World()


def init(*_: object, **__: object) -> None:
    world.initialized = True


def shutdown() -> None:
    world.initialized = False


def is_initialized() -> bool:
    return world.initialized


def needs_init() -> None:
    if not world.initialized:
        raise ValueError("Horovod has not been initialized; use hvd.init().")


def rank() -> int:
    needs_init()
    return world.group.rank if world.joined else _number("RANK", 0)


def size() -> int:
    needs_init()
    return world.group.world if world.joined else _number("WORLD_SIZE", 1)


def local_rank() -> int:
    """Return the index of this worker's GPU on its machine; it does not change while the process lives."""
    needs_init()
    return _number("LOCAL_RANK", 0)


def local_size() -> int:
    """Workers on this machine when this one was started."""
    needs_init()
    return _number("LOCAL_WORLD_SIZE", size())


def _number(name: str, otherwise: int) -> int:
    return int(os.environ.get(name, otherwise))
