"""Formation of a worker group in its own thread: training continues meanwhile in the previous group.

1. Every member registers at the store of the first one. 2. When all have registered, the group is decided on;
a member with newer orders may decide against it before that. There is one decision for all: the first one
counts. 3. All connect. From here on only a loss can prevent the group, not a change of plans: a new member
may already be waiting inside.
"""

import threading
import time
from collections.abc import Callable

from grus.elastic.rendezvous.collective_backends import Broken, Communicator, Store
from grus.elastic.rendezvous.worker_commands import RendezvousGroup
from grus.elastic.training_loop import shutdown

QUICK, SLOW = 0.001, 0.02
"""Seconds between two checks for members: at first, and when a member takes long."""
GO, NO = "go", "no"


class Forming:
    """One worker's part in forming one worker group; starts at once."""

    def __init__(
        self,
        team: RendezvousGroup,
        meet: Callable[[], Store],
        make: Callable[[Store], Communicator],
        name: str,
    ) -> None:
        self.team = team
        self.communicator: Communicator | None = None
        """Connected to all, once `over`; None for a group of one."""
        self._meet = meet
        self._make = make
        self._over = threading.Event()
        self._failed = False
        self._unwanted = threading.Event()
        self._abandoned = threading.Event()
        if len(team.members) == 1:
            self._over.set()
        else:
            shutdown.start(self._run, name)

    @property
    def ready(self) -> bool:
        """Return whether the group can start, as far as this worker is concerned."""
        return self._over.is_set() and not self._failed

    @property
    def failed(self) -> bool:
        return self._over.is_set() and self._failed

    def wait(self, seconds: float) -> None:
        """Wait until it is over, but not longer than that."""
        self._over.wait(seconds)

    def call_off(self) -> None:
        """Call the group off because there are newer orders;
        it is still formed if that was decided already.
        """
        self._unwanted.set()

    def abandon(self) -> None:
        """Abandon all work in progress, because a member was lost or the run is to end."""
        self._abandoned.set()
        if self.communicator is not None:
            self.communicator.abort()

    def _run(self) -> None:
        try:
            store = self._meet()
            self._gather(store)
            self.communicator = self._make(store)
            if self._abandoned.is_set():
                raise Broken("abandoned")
            self.communicator.connect()  # may block without limit, unless it is aborted
        except (Broken, RuntimeError, OSError):  # a member is gone: there will be another worker group
            self._failed = True
        self._over.set()

    def _gather(self, store: Store) -> None:
        """Wait until all members are here: from then on forming takes milliseconds, or fails."""
        since = time.monotonic()
        here = store.add("here", 1)
        while here < len(self.team.members):
            if self._abandoned.is_set():
                raise Broken("abandoned")
            if self._unwanted.is_set():
                break
            time.sleep(min(max(QUICK, (time.monotonic() - since) / 8), SLOW))
            here = store.add("here", 0)
        wish = GO if here == len(self.team.members) else NO
        if store.compare_set("decision", "", wish).decode() != GO:
            raise Broken("there are newer orders")
