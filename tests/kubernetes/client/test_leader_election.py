"""One of several leads, and knows when it does not any more."""

import threading

from grus.kubernetes.client.api import Api, Object
from grus.kubernetes.client.leader_election import (
    NOTHING,
    Leadership,
    claimed,
    epoch_of,
    may_take,
    released,
    renewed,
    sighted,
)
from grus.kubernetes.client.resource_kinds import LEASES
from tests.kubernetes.clusters import until
from tests.kubernetes.faults import LOST, PASS, Faults, everything

NAME = "grus-controller"


def a_lease(holder: str, epoch: int = 1) -> Object:
    lease = claimed({"metadata": {"name": NAME}}, holder, 15, "then")
    lease["metadata"]["annotations"]["grus.dev/epoch"] = str(epoch)
    return lease


class TestRules:
    def test_a_lease_is_left_alone_for_its_whole_duration_by_the_own_clock(self) -> None:
        sight = sighted(a_lease("other"), NOTHING, 100.0)
        assert not may_take(sight, "me", 115.0)
        assert may_take(sight, "me", 115.1)

    def test_a_renewal_starts_the_wait_anew_whatever_time_it_names(self) -> None:
        lease = a_lease("other")
        first = sighted(lease, NOTHING, 100.0)
        assert sighted(lease, first, 110.0) == first
        assert sighted(renewed(lease, "years ago"), first, 110.0).since == 110.0

    def test_a_lease_that_was_handed_back_or_is_our_own_is_taken_at_once(self) -> None:
        assert may_take(sighted(released(a_lease("other"), "now"), NOTHING, 100.0), "me", 100.0)
        assert may_take(sighted(a_lease("me"), NOTHING, 100.0), "me", 100.0)

    def test_every_claim_raises_the_epoch_and_keeps_what_else_is_noted(self) -> None:
        lease = a_lease("other", epoch=7)
        lease["metadata"]["annotations"]["else"] = "kept"
        mine = claimed(lease, "me", 15, "now")
        assert (epoch_of(mine), mine["metadata"]["annotations"]["else"]) == (8, "kept")
        assert mine["spec"]["leaseTransitions"] == 2

    def test_an_epoch_that_is_no_number_counts_as_none(self) -> None:
        lease = a_lease("other")
        lease["metadata"]["annotations"]["grus.dev/epoch"] = "many"
        assert epoch_of(lease) == 0


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def steal(api: Api, namespace: str) -> None:
    api.replace(
        LEASES, claimed(api.get(LEASES, NAME, namespace), "thief", 3600, "2026-01-01T00:00:00.000000Z")
    )


def test_the_first_leads_and_the_second_follows_when_it_hands_over(api: Api, namespace: str) -> None:
    first, second = (Leadership(api, namespace, renew=0.1) for _ in range(2))
    assert (first.acquire(), first.epoch, first.valid(), second.valid()) == (1, 1, True, False)
    epochs: list[int] = []
    waiting = threading.Thread(target=lambda: epochs.append(second.acquire()))
    waiting.start()
    renewals = {api.get(LEASES, NAME, namespace)["spec"]["renewTime"]}
    until(
        lambda: len(renewals.union({api.get(LEASES, NAME, namespace)["spec"]["renewTime"]})) > 1,
        "it is renewed",
    )
    assert not epochs
    first.release()
    assert not first.valid()
    waiting.join()
    assert epochs == [2]
    assert second.valid()
    second.release()


def test_a_leader_that_vanished_is_followed_after_its_time(api: Api, namespace: str) -> None:
    gone = Leadership(api, namespace, duration=1, renew=3600)
    assert gone.acquire() == 1
    following = Leadership(api, namespace)
    assert following.acquire() == 2
    assert not gone.valid()
    following.release()
    gone.release()
    assert api.get(LEASES, NAME, namespace)["metadata"]["annotations"]["grus.dev/epoch"] == "2"


def test_one_that_was_stopped_for_long_finds_itself_invalid_before_anything_else(
    api: Api, namespace: str
) -> None:
    clock = Clock()
    leader = Leadership(api, namespace, renew=3600, clock=clock)
    leader.acquire()
    clock.now += 11.9
    assert leader.valid()
    clock.now += 0.2
    assert not leader.valid()
    leader.release()


def test_a_leader_whose_lease_somebody_took_has_lost_and_can_stand_again(api: Api, namespace: str) -> None:
    lost = threading.Event()
    leader = Leadership(api, namespace, renew=0.1, on_lost=lost.set)
    leader.acquire()
    steal(api, namespace)
    until(lost.is_set, "it is told")
    assert (leader.valid(), leader.epoch) == (False, 0)
    api.replace(LEASES, released(api.get(LEASES, NAME, namespace), "2026-01-01T00:00:00.000000Z"))
    assert leader.acquire() == 3
    leader.release()


def test_a_leader_without_the_server_is_invalid_until_it_is_back(
    shaky: Api, faults: Faults, namespace: str
) -> None:
    clock, lost = Clock(), threading.Event()
    leader = Leadership(shaky, namespace, renew=0.1, clock=clock, on_lost=lost.set)
    leader.acquire()
    faults.rule = everything(503)
    faults.asked.clear()
    until(lambda: len(faults.asked) >= 3, "it has tried")
    clock.now += 60
    assert not leader.valid()
    faults.rule = everything(PASS)
    until(leader.valid, "it is valid again")
    assert leader.epoch == 1
    assert not lost.is_set()
    leader.release()


def test_a_renewal_whose_answer_was_lost_costs_nothing(shaky: Api, faults: Faults, namespace: str) -> None:
    lost = threading.Event()
    leader = Leadership(shaky, namespace, renew=0.1, on_lost=lost.set)
    leader.acquire()
    answers = iter([LOST])
    faults.rule = lambda method, path: next(answers, PASS) if method == "PUT" else PASS
    faults.asked.clear()
    until(lambda: [method for method, _ in faults.asked].count("PUT") >= 4, "it goes on renewing")
    assert leader.valid()
    assert not lost.is_set()
    leader.release()


def test_a_lease_that_others_keep_writing_is_not_lost(shaky: Api, faults: Faults, namespace: str) -> None:
    lost = threading.Event()
    leader = Leadership(shaky, namespace, renew=0.1, on_lost=lost.set)
    leader.acquire()
    answers = iter([409] * 6)
    faults.rule = lambda method, path: next(answers, PASS) if method == "PUT" else PASS
    faults.asked.clear()
    until(lambda: [method for method, _ in faults.asked].count("PUT") >= 8, "it goes on renewing")
    assert leader.valid()
    assert not lost.is_set()
    leader.release()


def test_a_lease_deleted_under_its_holder_comes_back_with_the_epoch(api: Api, namespace: str) -> None:
    first = Leadership(api, namespace, renew=0.1)
    first.acquire()
    first.release()
    leader = Leadership(api, namespace, renew=0.1)
    assert leader.acquire() == 2
    old = api.get(LEASES, NAME, namespace)["metadata"]["uid"]
    api.delete(LEASES, NAME, namespace)

    def back() -> bool:
        found, _ = api.list(LEASES, namespace)
        return any(epoch_of(one) == 2 and one["metadata"]["uid"] != old for one in found)

    until(back, "it is back")
    assert leader.valid()
    leader.release()


def test_waiting_for_the_lead_ends_when_it_is_released(api: Api, namespace: str) -> None:
    leader, waiting = Leadership(api, namespace), Leadership(api, namespace)
    leader.acquire()
    epochs: list[int] = []
    thread = threading.Thread(target=lambda: epochs.append(waiting.acquire()))
    thread.start()
    waiting.release()
    thread.join()
    assert epochs == [0]
    leader.release()


def test_of_many_who_stand_at_once_exactly_one_leads(api: Api, namespace: str) -> None:
    standing = [Leadership(api, namespace) for _ in range(8)]
    leading: list[Leadership] = []

    def stand(one: Leadership) -> None:
        if one.acquire():
            leading.append(one)

    threads = [threading.Thread(target=stand, args=(one,)) for one in standing]
    for thread in threads:
        thread.start()
    until(lambda: bool(leading), "one leads")
    for one in standing:
        if one not in leading:
            one.release()
    for thread in threads:
        thread.join()
    assert len(leading) == 1
    assert epoch_of(api.get(LEASES, NAME, namespace)) == leading[0].epoch == 1
    leading[0].release()
