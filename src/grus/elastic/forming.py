"""A team in the making, by a thread of its own: training goes on meanwhile in the team of before.

1. Every member says at the store of the first one that it is here.
2. When all are, it is decided that the team shall be; a member with newer orders may decide against it before
   that. There is one decision for all: whoever comes first has decided.
3. All connect. From here on only a loss can prevent the team, not a change of plans: a new member may already
   be waiting inside.
"""

import threading
import time
from collections.abc import Callable

from grus.elastic import farewell
from grus.elastic.backends import Broken, Communicator, Store
from grus.elastic.orders import Team

QUICK, SLOW = 0.001, 0.02
"""Seconds between two looks at who is here: at first, and when somebody takes long."""
GO, NO = "go", "no"


class Forming:
    """One worker's part in making one team; begins at once."""

    def __init__(
        self, team: Team, meet: Callable[[], Store], make: Callable[[Store], Communicator], name: str
    ) -> None:
        self.team = team
        self.communicator: Communicator | None = None
        """Connected to all, once `over`; none for a team of one."""
        self._meet = meet
        self._make = make
        self._over = threading.Event()
        self._failed = False
        self._unwanted = threading.Event()
        self._abandoned = threading.Event()
        if len(team.members) == 1:
            self._over.set()
        else:
            farewell.start(self._run, name)

    @property
    def ready(self) -> bool:
        """Whether the team can begin, as far as this worker is concerned."""
        return self._over.is_set() and not self._failed

    @property
    def failed(self) -> bool:
        return self._over.is_set() and self._failed

    def wait(self, seconds: float) -> None:
        """Until it is over, but not longer than that."""
        self._over.wait(seconds)

    def call_off(self) -> None:
        """There are newer orders: make this team only if that has been decided already."""
        self._unwanted.set()

    def abandon(self) -> None:
        """A member was lost, or all is to end: whatever is under way is in vain."""
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
            self.communicator.connect()  # may block for ever, unless it is aborted
        except (Broken, RuntimeError, OSError):  # a member is gone: there will be another team
            self._failed = True
        self._over.set()

    def _gather(self, store: Store) -> None:
        """Wait until everybody is here: from then on forming takes milliseconds, or fails."""
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
