"""This worker's place among the others: it says that it is there, hears of teams, and forms them.

The control plane owns the membership. A worker listens at a store of its own, tells the address when it is
ready, and reads orders from a small file. A team meets at the store of its first member. Nobody's death takes
away a store that is still needed: it means another team, which meets elsewhere.

A thread watches the orders all the time, for the training thread may be stuck in an exchange with somebody
who is gone: only another thread can let it go. The same thread shows every second that this process lives,
and complains when the training thread has waited too long for the others.
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

from grus.elastic import orders
from grus.elastic.backends import Backend, Broken, Communicator, Store, backend_for, dist
from grus.elastic.device_errors import end_apart
from grus.elastic.forming import QUICK, Forming
from grus.elastic.group import Group
from grus.elastic.laps import Laps
from grus.elastic.orders import Orders, Team
from grus.sdk import worker

LOOK = 0.02
"""Seconds between two looks at the orders while all is well."""
BEAT = 1.0
"""Seconds between two signs of life."""
REACH = 2.0
"""Seconds to reach the store of a team's first member, which listens since before the team was named."""


class Left(Exception):
    """This worker is not (or no longer) part of the team and may go."""


class Membership(Protocol):
    """Where a worker's teams come from."""

    def orders(self) -> Orders:
        """The newest orders."""
        ...

    def formed(self) -> int:
        """The number of a next team that this worker could begin with at once (or leave for); 0 for none."""
        ...

    def stuck(self) -> bool:
        """Whether the others should wait with this worker for another team: it could not form the next."""
        ...

    def join(self) -> Team:
        """Begin with the next team that this worker is a member of. Raises Left; Broken if there is none."""
        ...

    def waiting(self) -> AbstractContextManager[None]:
        """For the time in which the training thread depends on the others."""
        ...

    def working(self) -> AbstractContextManager[None]:
        """For a part of that time in which the others depend on this worker."""
        ...

    def tell(self, step: int, parts: int = 1) -> None:
        """Note how far this worker is, and of how many parts its own part of the step was."""
        ...


class Alone:
    """No other workers, nobody who gives orders."""

    def __init__(self, group: Group) -> None:
        self._group = group

    def orders(self) -> Orders:
        """Whoever sends SIGTERM wants the run to end, saved."""
        return Orders(Team(self._group.number, ("",), 0), pause=worker.asked_to_end())

    def formed(self) -> int:
        return 0

    def stuck(self) -> bool:
        return False

    def join(self) -> Team:
        if self._group.number:
            raise Broken("there is nobody to begin again with")
        self._group.install(None, 1, 0, 1)
        return Team(1, ("",), 0)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        yield

    @contextmanager
    def working(self) -> Iterator[None]:
        yield

    def tell(self, step: int, parts: int = 1) -> None:
        """Nobody listens."""


class Torchrun(Alone):
    """The workers that torchrun started: one team for life. Whoever is lost, torchrun starts all again."""

    lost = "a worker was lost; torchrun starts all of them again"

    def __init__(self, group: Group, backend: Backend, device: torch.device) -> None:
        super().__init__(group)
        self._backend = backend
        self._device = device

    def join(self) -> Team:
        if self._group.number:
            raise Broken(self.lost)
        store, rank, world = next(dist.rendezvous("env://"))
        host = os.environ.get("GRUS_HOST", "127.0.0.1" if _on_this_machine(world) else socket.gethostname())
        communicator = self._backend.new(dist.PrefixStore("grus", store), rank, world, host, self._device)
        communicator.connect()
        self._met(store, rank, world, host)
        self._group.install(communicator, 1, rank, world)
        return Team(1, ("",) * world, rank)

    def _met(self, store: Store, rank: int, world: int, host: str) -> None:
        """For those who need more than the communicator."""


class Fixed(Torchrun):
    """A team for life, in a Grus job too: its members hold parts of one state. Torch knows it as its own."""

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
        atexit.register(dist.destroy_process_group)  # else gloo's threads now and then end it with SIGABRT


def _on_this_machine(world: int) -> bool:
    return os.environ.get("LOCAL_WORLD_SIZE") == str(world)


class Job:
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
        """Whether this worker has been part of a team that has begun: only then has it anything to lose."""
        self._changes = threading.Lock()
        """Around `_forming` and `_tried`."""
        self._forming: Forming | None = None
        self._tried = 0
        """The newest team that this worker has begun to form."""
        self._named = 0
        """The team that this worker is in, or waits for."""
        self._failed = 0
        """The newest one that it could not form."""
        threading.Thread(target=self._watch, name="grus-watcher", daemon=True).start()

    # ------------------------------------------------------------------------------- what others say

    def orders(self) -> Orders:
        return self._orders

    def _look(self) -> Orders:
        """Read the orders if they have changed."""
        with self._lock, suppress(OSError):  # no orders yet, or no disk for a moment: go on
            status = os.stat(self._control)
            seen = (status.st_mtime_ns, status.st_ino)
            if seen != self._seen:
                self._orders = orders.read(self._control.read_bytes())
                self._seen = seen
        return self._orders

    # --------------------------------------------------------------------------- what this one says

    def tell(self, step: int, parts: int = 1) -> None:
        """Note how far this worker is; told with the next sign of life."""
        self._laps.done(parts)
        self._step = step
        self._level = True

    def _say(self, *, ring: bool = False) -> None:
        waits = self._waits_since
        if waits is not None:
            waits = max(waits, self._group.settled_at)  # a large state takes long, but it comes
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
        """While the training thread depends on the others."""
        self._waits_since = time.monotonic()
        try:
            yield
        finally:
            self._go_on()

    @contextmanager
    def working(self) -> Iterator[None]:
        """While they depend on it."""
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
            if self._level:  # who is new begins when its loop does: it must not keep the others waiting
                self._pursue(found)
            if time.monotonic() - beat > BEAT:
                first, beat = beat == 0.0, time.monotonic()
                self._say(ring=first)
            time.sleep(LOOK)

    # ------------------------------------------------------------------------------- forming a team

    def formed(self) -> int:
        """Which team after the present one could begin, as far as this worker is concerned; 0 for none."""
        forming, team = self._forming, self._orders.team
        if forming is not None:
            return forming.team.number if forming.ready else 0
        leaves = self._orders.leave and team is not None and team.me is None
        return self._orders.number if leaves else 0

    def stuck(self) -> bool:
        """Whether this worker could not form the newest team, and so waits for another one."""
        return self._failed > self._group.number and self._failed == self._orders.number

    def join(self) -> Team:
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
                    self._waits_since = time.monotonic()  # not admitted yet: nobody to complain of
                time.sleep(QUICK if time.monotonic() - since < BEAT else LOOK)

    def _pursue(self, found: Orders) -> Forming | None:
        """The team in the making, if there is one: begun, called off or given up as the orders say."""
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

    def _begin(self, team: Team) -> Forming:
        def meet() -> Store:
            return dist.PrefixStore(f"team{team.number}", _reach(team.members[0]))

        def make(store: Store) -> Communicator:
            assert team.me is not None
            return self._backend.new(store, team.me, len(team.members), self._host, self._device)

        return Forming(team, meet, make, f"team-{team.number}")

    def _enter(self, forming: Forming) -> bool:
        """Begin with this team, if it has been made and is still the one to be."""
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
    """By what the environment says: a Grus job, torchrun, or nothing of the kind."""
    several = int(os.environ.get("WORLD_SIZE") or 1) > 1
    if fixed:
        return Fixed(group, backend_for(device, backend), device) if several else Alone(group)
    control = os.environ.get("GRUS_CONTROL")
    if control and os.environ.get("GRUS_BELL"):
        end_apart()
        return Job(Path(control), group, backend_for(device, backend), device, hang_after)
    if several:
        return Torchrun(group, backend_for(device, backend), device)
    return Alone(group)


def _reach(address: str) -> Store:
    """A connection for one team alone: a thread that waits on it in vain, for one who is gone, blocks it."""
    host, _, port = address.rpartition(":")
    # The library tries for long where nobody listens; this says so at once.
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
