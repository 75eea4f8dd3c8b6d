"""Membership of a worker: it announces itself, receives its worker groups, and forms them.

The control plane owns the membership. A worker listens at a store of its own, sends its address when it is
ready, and reads orders from a small file. A worker group meets at the store of its first member. No worker's
death removes a store that is still needed: it leads to another group, which meets at another store.

A thread watches the orders all the time, because the training thread may be stuck in an exchange with a
worker that is gone, and only another thread can unblock it. The same thread reports every second that this
process lives, and warns when the training thread has waited too long for the others.
"""

import atexit
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import torch

from grus.elastic.rendezvous import worker_commands as orders
from grus.elastic.rendezvous.background_rescale import QUICK, Forming
from grus.elastic.rendezvous.collective_backends import (
    Backend,
    Broken,
    Communicator,
    Store,
    backend_for,
    dist,
)
from grus.elastic.rendezvous.device_errors import end_apart
from grus.elastic.rendezvous.process_group import Group
from grus.elastic.rendezvous.worker_commands import Orders, RendezvousGroup
from grus.elastic.training_loop.step_timer import Laps
from grus.sdk import worker

LOOK = 0.02
"""Seconds between two looks at the orders while all is well."""
BEAT = 1.0
"""Seconds between two signs of life."""
REACH = 2.0
"""Seconds to reach the store of a group's first member, which listens since before the group was named."""


class Left(Exception):
    """Raised when this worker is not (or no longer) part of the worker group and may exit."""


class Membership(Protocol):
    """Source of a worker's groups."""

    def orders(self) -> Orders:
        """The newest orders."""
        ...

    def formed(self) -> int:
        """Return the number of a next group that this worker
        could start with at once (or leave for); 0 for none.
        """
        ...

    def stuck(self) -> bool:
        """Return whether the others should wait with this
        worker for another group: it could not form the next.
        """
        ...

    def join(self) -> RendezvousGroup:
        """Start with the next group that this worker is a member of. Raises Left; Broken if there is none."""
        ...

    def waiting(self) -> AbstractContextManager[None]:
        """Mark the time in which the training thread depends on the others."""
        ...

    def working(self) -> AbstractContextManager[None]:
        """Mark a part of that time in which the others depend on this worker."""
        ...

    def tell(self, step: int, parts: int = 1) -> None:
        """Note how far this worker is, and of how many parts its own part of the step was."""
        ...


class Alone:
    """Membership of a worker without other workers and without a control plane."""

    def __init__(self, group: Group) -> None:
        self._group = group

    def orders(self) -> Orders:
        """Return the newest orders; SIGTERM means that the run is to end, saved."""
        return Orders(RendezvousGroup(self._group.number, ("",), 0), pause=worker.asked_to_end())

    def formed(self) -> int:
        return 0

    def stuck(self) -> bool:
        return False

    def join(self) -> RendezvousGroup:
        if self._group.number:
            raise Broken("there is nobody to begin again with")
        self._group.install(None, 1, 0, 1)
        return RendezvousGroup(1, ("",), 0)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        yield

    @contextmanager
    def working(self) -> Iterator[None]:
        yield

    def tell(self, step: int, parts: int = 1) -> None:
        """Do nothing: there is no receiver."""


class Torchrun(Alone):
    """Workers that torchrun started: one worker group for
    the run. After a loss torchrun restarts all of them.
    """

    lost = "a worker was lost; torchrun starts all of them again"

    def __init__(self, group: Group, backend: Backend, device: torch.device) -> None:
        super().__init__(group)
        self._backend = backend
        self._device = device

    def join(self) -> RendezvousGroup:
        if self._group.number:
            raise Broken(self.lost)
        store, rank, world = next(dist.rendezvous("env://"))
        host = os.environ.get("GRUS_HOST", "127.0.0.1" if _on_this_machine(world) else socket.gethostname())
        communicator = self._backend.new(dist.PrefixStore("grus", store), rank, world, host, self._device)
        communicator.connect()
        self._met(store, rank, world, host)
        self._group.install(communicator, 1, rank, world)
        return RendezvousGroup(1, ("",) * world, rank)

    def _met(self, store: Store, rank: int, world: int, host: str) -> None:
        """Set up more than the communicator; a hook for subclasses."""


class Fixed(Torchrun):
    """Worker group fixed for the run, in a Grus job too: its members hold parts of one state.

    It is also torch's default process group.
    """

    lost = "a worker was lost, and its part of the state with it: all begin again from the last checkpoint"

    def _met(self, store: Store, rank: int, world: int, host: str) -> None:
        on_gpus = self._device.type == "cuda"
        if not on_gpus and host.startswith("127."):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group(
            "nccl" if on_gpus else "gloo",
            store=dist.PrefixStore("parts", store),
            rank=rank,
            world_size=world,
            device_id=self._device if on_gpus else None,
        )
        atexit.register(dist.destroy_process_group)  # otherwise gloo's threads sometimes end it with SIGABRT


def _on_this_machine(world: int) -> bool:
    return os.environ.get("LOCAL_WORLD_SIZE") == str(world)


class GrusJob:
    """The workers of a Grus job."""

    def __init__(
        self, control: Path, group: Group, backend: Backend, device: torch.device, hang_after: float
    ) -> None:
        self._control = control
        self._group = group
        self._backend = backend
        self._device = device
        self._hang_after = hang_after
        self._host = os.environ.get("GRUS_HOST", "127.0.0.1")
        self._store, self._address = _listen(self._host)
        self._lock = threading.Lock()
        """Around `_orders` and `_seen`: both threads look."""
        self._orders = Orders()
        self._seen: tuple[int, int] = (0, 0)
        self._waits_since: float | None = None
        self._laps = Laps()
        self._step = 0
        self._level = False
        """True once this worker has been in a worker group
        that has started: only then has it state to lose.
        """
        self._changes = threading.Lock()
        """Around `_forming` and `_tried`."""
        self._forming: Forming | None = None
        self._tried = 0
        """Newest worker group that this worker has started to form."""
        self._named = 0
        """Worker group that this worker is in, or waits for."""
        self._failed = 0
        """The newest one that it could not form."""
        threading.Thread(target=self._watch, name="grus-watcher", daemon=True).start()

    # ------------------------------------------------------------------------------- what others say

    def orders(self) -> Orders:
        return self._orders

    def _look(self) -> Orders:
        """Read the orders if they have changed."""
        with self._lock, suppress(OSError):  # no orders yet, or a transient disk error: continue
            status = os.stat(self._control)
            seen = (status.st_mtime_ns, status.st_ino)
            if seen != self._seen:
                self._orders = orders.read(self._control.read_bytes())
                self._seen = seen
        return self._orders

    # --------------------------------------------------------------------------- what this one says

    def tell(self, step: int, parts: int = 1) -> None:
        """Record this worker's progress; it is sent with the next heartbeat."""
        self._laps.done(parts)
        self._step = step
        self._level = True

    def _say(self, *, ring: bool = False) -> None:
        waits = self._waits_since
        if waits is not None:
            waits = max(waits, self._group.settled_at)  # a large state takes long, but it arrives
        late = waits is not None and time.monotonic() - waits > self._hang_after
        since = time.time() - (time.monotonic() - waits) if waits is not None and late else None
        worker.tell(
            elastic={
                "address": self._address,
                "team": self._named,
                "step": self._step,
                "lap": self._laps.seconds,
                "waits": since,
                "hang_after": self._hang_after,
            }
        )
        if ring or late:
            worker.ring()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Mark the time in which the training thread depends on the others."""
        self._waits_since = time.monotonic()
        try:
            yield
        finally:
            self._go_on()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Mark the time in which the others depend on this worker."""
        self._go_on()
        yield
        self._waits_since = time.monotonic()

    def _go_on(self) -> None:
        since, self._waits_since = self._waits_since, None
        if since is not None:
            self._laps.waited(time.monotonic() - since)

    def _watch(self) -> None:
        beat = 0.0
        while True:
            found = self._look()
            if found.broken > self._group.number:
                self._group.abort(before=found.broken)
            if found.ends and not self._level:
                self._group.abort(before=self._group.number + 1)
            if self._level:  # a new worker starts when its loop does: it must not keep the others waiting
                self._pursue(found)
            if time.monotonic() - beat > BEAT:
                first, beat = beat == 0.0, time.monotonic()
                self._say(ring=first)
            time.sleep(LOOK)

    # ------------------------------------------------------------------------------- forming a team

    def formed(self) -> int:
        """Return the next group that could start, as far as this worker is concerned; 0 for none."""
        forming, team = self._forming, self._orders.team
        if forming is not None:
            return forming.team.number if forming.ready else 0
        leaves = self._orders.leave and team is not None and team.me is None
        return self._orders.number if leaves else 0

    def stuck(self) -> bool:
        """Return whether this worker could not form the newest group, and so waits for another one."""
        return self._failed > self._group.number and self._failed == self._orders.number

    def join(self) -> RendezvousGroup:
        with self.waiting():
            since = time.monotonic()
            while True:
                found = self._look()
                forming = self._pursue(found)
                if forming is not None:
                    self._named = forming.team.number
                    forming.wait(QUICK)
                    if self._enter(forming):
                        return forming.team
                    continue
                if found.ends or (found.leave and (found.team is None or found.team.me is None)):
                    raise Left
                if self._group.number == 0:
                    self._waits_since = time.monotonic()  # not admitted yet: there is no peer to blame
                time.sleep(QUICK if time.monotonic() - since < BEAT else LOOK)

    def _pursue(self, found: Orders) -> Forming | None:
        """Return the group being formed, if there is one:
        started, called off or abandoned according to the orders.
        """
        with self._changes:
            forming, team = self._forming, found.team
            if forming is not None:
                if found.ends or found.broken > forming.team.number:
                    forming.abandon()
                    self._forming = None
                elif forming.failed:
                    self._failed = forming.team.number
                    self._forming = None
                elif found.number > forming.team.number:
                    forming.call_off()
            wanted = team if team is not None and team.me is not None and not found.ends else None
            if self._forming is None and wanted is not None and wanted.number > self._tried:
                self._tried = wanted.number
                self._forming = self._begin(wanted)
            return self._forming

    def _begin(self, team: RendezvousGroup) -> Forming:
        def meet() -> Store:
            return dist.PrefixStore(f"team{team.number}", _reach(team.members[0]))

        def make(store: Store) -> Communicator:
            assert team.me is not None
            return self._backend.new(store, team.me, len(team.members), self._host, self._device)

        return Forming(team, meet, make, f"team-{team.number}")

    def _enter(self, forming: Forming) -> bool:
        """Start with this worker group, if it has been formed and is still current."""
        team = forming.team
        assert team.me is not None
        with self._changes:
            if not forming.ready or self._forming is not forming:
                return False
            self._group.install(forming.communicator, team.number, team.me, len(team.members))
            self._forming = None
        self._say()
        return True


def find_membership(
    group: Group, device: torch.device, *, backend: str | None, hang_after: float, fixed: bool = False
) -> Membership:
    """Return the membership for the environment: a Grus job, torchrun, or neither."""
    several = int(os.environ.get("WORLD_SIZE") or 1) > 1
    if fixed:
        return Fixed(group, backend_for(device, backend), device) if several else Alone(group)
    control = os.environ.get("GRUS_CONTROL")
    if control and os.environ.get("GRUS_BELL"):
        end_apart()
        return GrusJob(Path(control), group, backend_for(device, backend), device, hang_after)
    if several:
        return Torchrun(group, backend_for(device, backend), device)
    return Alone(group)


def _reach(address: str) -> Store:
    """Return a connection for one worker group alone: a
    thread that waits on it for a lost member blocks it.
    """
    host, _, port = address.rpartition(":")
    # The library retries for long if nothing listens; this fails at once.
    socket.create_connection((host, int(port)), timeout=REACH).close()
    return dist.TCPStore(host, int(port), is_master=False, timeout=timedelta(seconds=30))


def _listen(host: str) -> tuple[Store, str]:
    """A store of this worker's own, bound to one address only."""
    listener = socket.create_server((host, 0))
    port = listener.getsockname()[1]
    store = dist.TCPStore(
        host,
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
        timeout=timedelta(seconds=30),
    )
    return store, f"{host}:{port}"
