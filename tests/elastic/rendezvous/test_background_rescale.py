"""A team in the making: all of its members begin with it, or none does."""

import threading
import time
from collections.abc import Callable

import pytest
import torch.distributed as dist

from grus.elastic.gradients.step_sync import Flags
from grus.elastic.rendezvous.background_rescale import Forming
from grus.elastic.rendezvous.collective_backends import Broken, Communicator, Store
from grus.elastic.rendezvous.worker_commands import RendezvousGroup

PATIENCE = 300.0


class Connection:
    """A communicator of which only connecting matters; it blocks while `open` is not set."""

    def __init__(self, open: threading.Event) -> None:
        self._let_go = open
        self.entered = threading.Event()
        self.aborted = False

    def connect(self) -> None:
        self.entered.set()
        assert self._let_go.wait(PATIENCE)
        if self.aborted:
            raise Broken("aborted")

    def abort(self) -> None:
        self.aborted = True
        self._let_go.set()


class Meeting:
    """A store, and members that form a team of two at it."""

    def __init__(self, *, blocked: bool = False) -> None:
        self._store = dist.HashStore()  # type: ignore[attr-defined]  # exported at run time only
        self._open = threading.Event()
        if not blocked:
            self._open.set()
        self.connections: list[Connection] = []

    def wait_until_both_connect(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while len(self.connections) < 2 or not all(one.entered.is_set() for one in self.connections):
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def go_on(self) -> None:
        self._open.set()

    def member(self, rank: int, store: Callable[[], Store] | None = None) -> Forming:
        team = RendezvousGroup(number=3, members=("a:1", "b:2"), me=rank)
        return Forming(team, store or (lambda: self._store), self._make, f"member-{rank}")

    def _make(self, store: Store) -> Communicator:
        assert store is self._store
        self.connections.append(Connection(self._open))
        return self.connections[-1]  # type: ignore[return-value]  # it never exchanges anything


def over(*members: Forming) -> list[bool]:
    """Whether each is ready, once all are over."""
    for member in members:
        member.wait(PATIENCE)
        assert member.ready or member.failed
    return [member.ready for member in members]


def test_a_team_is_made_when_all_are_here() -> None:
    meeting = Meeting()
    first = meeting.member(0)
    assert not first.ready
    assert not first.failed
    assert over(first, meeting.member(1)) == [True, True]


def test_a_team_of_one_is_there_at_once() -> None:
    alone = Forming(RendezvousGroup(2, ("a:1",), 0), pytest.fail, pytest.fail, "alone")
    assert alone.ready
    assert alone.communicator is None


def test_a_team_that_was_called_off_before_all_were_here_begins_for_nobody() -> None:
    """Not even for one who comes later and has not heard of it."""
    meeting = Meeting()
    first = meeting.member(0)
    first.call_off()
    assert over(first) == [False]
    assert over(meeting.member(1)) == [False]
    assert meeting.connections == []


def test_a_team_that_was_decided_upon_is_made_whatever_the_plans_are_by_then() -> None:
    """A new member may be waiting inside already."""
    meeting = Meeting(blocked=True)
    members = [meeting.member(0), meeting.member(1)]
    meeting.wait_until_both_connect()
    members[0].call_off()
    assert not members[0].failed
    meeting.go_on()
    assert over(*members) == [True, True]


def test_who_abandons_a_team_is_let_go_of_while_it_connects() -> None:
    meeting = Meeting(blocked=True)
    members = [meeting.member(0), meeting.member(1)]
    meeting.wait_until_both_connect()
    for member in members:
        assert member.communicator is not None
        member.abandon()
    assert over(*members) == [False, False]


def test_who_abandons_a_team_is_let_go_of_while_it_waits_for_the_others() -> None:
    meeting = Meeting()
    first = meeting.member(0)
    first.abandon()
    assert over(first) == [False]


def test_a_first_member_that_cannot_be_reached_is_a_failure_and_no_more() -> None:
    def nobody() -> Store:
        raise ConnectionRefusedError

    assert over(Meeting().member(1, nobody)) == [False]


@pytest.mark.parametrize(
    ("numbers", "changes"),
    [((4,), True), ((4, 4, 4), True), ((0, 0), False), ((4, 0), False), ((3, 4, 5), False), ((3, 5), False)],
)
def test_teams_change_when_all_workers_are_ready_for_the_same_one(
    numbers: tuple[int, ...], changes: bool
) -> None:
    flags = [Flags.of(number, stuck=False, end=False) for number in numbers]
    total = Flags(*(sum(values) for values in zip(*flags, strict=True)))
    assert total.change(len(numbers)) is changes


def test_one_that_could_not_form_the_next_team_makes_all_wait_for_another() -> None:
    total = Flags(team=4.0, square=16.0, stuck=1.0)
    assert total.change(2)
