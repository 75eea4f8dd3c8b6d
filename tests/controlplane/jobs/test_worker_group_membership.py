"""Teams: who computes together, through the real loop in virtual time. Workers ring when they are ready."""

import json
from dataclasses import replace
from typing import Any

import pytest

from grus.controlplane.jobs import worker_group_membership
from grus.controlplane.jobs.apply_decision import rule
from grus.controlplane.workers.worker_launch_spec import members
from grus.model.identifiers import DeviceId, JobId
from grus.model.interfaces import WorkerState
from grus.model.jobs import Job, Phase, Seat
from grus.model.resources import Range
from grus.scheduler.decisions import Resize
from tests.controlplane.plane import ANN, Plane
from tests.scheduler.builders import a_role

START_TIMEOUT = 60.0


def a_word(plane: Plane, number: int | str, **more: object) -> str:
    elastic = {"address": f"127.0.0.1:{4000 + int(str(number).partition('.')[0])}", **more}
    return json.dumps({"at": plane.now, "elastic": elastic})


def ready(plane: Plane, *numbers: int | str, role: str = "worker") -> None:
    """These workers say that they can be joined; a number is that of the seat, "1.2" with its birth."""
    for number in numbers:
        plane.engine.rings(f".{role}.{number}", a_word(plane, number))
    plane.settle()


def a_growing_team(plane: Plane) -> JobId:
    """Two members; two more workers boot."""
    other = plane.submit("other", roles=(a_role("other", 2, 1),))
    job = plane.submit("e", gpus="1..4")
    ready(plane, 0, 1)
    plane.do(lambda: plane.engine.finish(other))
    assert (plane.job(job).team, len(plane.job(job).staying)) == (1, 4)
    return job


def a_team(plane: Plane, size: int, gpus: str = "", **spec: object) -> JobId:
    job = plane.submit("e", ANN, gpus=gpus or f"1..{size}", **spec)
    ready(plane, *range(size))
    assert len(worker_group_membership.team(plane.job(job))) == size
    return job


def told(plane: Plane, words: str) -> dict[str, Any]:
    """What this worker was last told of its team."""
    text = plane.engine.workers_alive.known[plane.engine.find(words)].control
    found: dict[str, Any] = json.loads(text)["team"]
    return found


def addresses(*numbers: int) -> list[str]:
    return [f"127.0.0.1:{4000 + number}" for number in numbers]


# --------------------------------------------------------------------------------------------- forming


def test_workers_that_say_nothing_have_no_team() -> None:
    plane = Plane()
    job = plane.submit("e", gpus="1..3")
    plane.after(20)
    assert plane.job(job).team == 0
    assert all(json.loads(one.control or "{}").get("team") is None for one in known(plane))


def known(plane: Plane) -> list[Any]:
    return list(plane.engine.workers_alive.known.values())


def test_the_first_team_forms_when_all_are_ready() -> None:
    plane = Plane()
    job = plane.submit("e", gpus="1..3")
    ready(plane, 0, 2)
    assert plane.job(job).team == 0
    ready(plane, 1)
    assert plane.job(job).team == 1
    assert told(plane, "worker.0") == {"number": 1, "members": addresses(0, 1, 2), "me": 0, "broken": 0}
    assert told(plane, "worker.2")["me"] == 2


def test_the_first_team_waits_ten_seconds_for_those_who_boot() -> None:
    plane = Plane()
    job = plane.submit("e", gpus="1..3")
    ready(plane, 1)
    plane.after(9.9)
    assert plane.job(job).team == 0
    plane.after(0.1)
    assert told(plane, "worker.1")["members"] == addresses(1)
    assert told(plane, "worker.0")["me"] is None
    ready(plane, 0, 2)
    assert told(plane, "worker.0") == {"number": 2, "members": addresses(1, 0, 2), "me": 1, "broken": 0}


def test_a_single_process_with_all_its_gpus_is_a_team_of_one() -> None:
    plane = Plane()
    job = plane.submit("one", gpus=2, one_node=True)
    plane.engine.rings(job, a_word(plane, 0))
    plane.settle()
    assert told(plane, job) == {"number": 1, "members": addresses(0), "me": 0, "broken": 0}


def test_a_role_that_never_says_an_address_stays_outside_and_is_left_alone() -> None:
    plane = Plane()
    job = plane.submit("e", roles=(a_role("worker", 2, 1), a_role("watcher", 1, 0)))
    ready(plane, 0, 1)
    plane.after(10)
    assert plane.job(job).team == 1
    plane.after(2 * START_TIMEOUT)
    assert plane.engine.alive("watcher.0.1")
    plane.do(lambda: plane.engine.finish("worker"))
    assert plane.phase(job) is Phase.RUNNING
    plane.do(lambda: plane.engine.finish("watcher"))
    assert plane.phase(job) is Phase.SUCCEEDED


# ------------------------------------------------------------------------------------ growing, shrinking


def test_joiners_are_admitted_together_and_come_after_those_who_were_there() -> None:
    plane = Plane()
    job = a_growing_team(plane)
    ready(plane, 3)
    assert plane.job(job).team == 1
    ready(plane, 2)
    assert told(plane, "worker.3") == {"number": 2, "members": addresses(0, 1, 2, 3), "me": 3, "broken": 0}


def test_a_joiner_is_kept_waiting_by_others_for_ten_seconds_at_most() -> None:
    plane = Plane()
    job = a_growing_team(plane)
    ready(plane, 3)
    plane.after(10)
    assert told(plane, "worker.0")["members"] == addresses(0, 1, 3)
    ready(plane, 2)
    assert told(plane, "worker.0")["members"] == addresses(0, 1, 3, 2)
    assert plane.job(job).broken == 0


def test_who_shrinks_gets_a_new_team_and_who_leaves_is_no_member() -> None:
    plane = Plane()
    plane.engine.obedient = False
    job = a_team(plane, 4)
    plane.do(lambda: plane.services.actions.scale(ANN, job, Range(2, 2)))
    assert told(plane, "worker.0") == {"number": 2, "members": addresses(0, 1), "me": 0, "broken": 0}
    assert told(plane, "worker.3")["me"] is None
    for number in (2, 3):
        plane.engine.exit(f"worker.{number}")
    plane.settle()
    assert plane.job(job).broken == 0
    assert len(plane.job(job).seats) == 2


def test_who_is_killed_while_leaving_breaks_the_teams_before() -> None:
    """Others may still wait for it in the middle of a step."""
    plane = Plane()
    plane.engine.obedient = False
    job = a_team(plane, 4)
    plane.do(lambda: plane.services.actions.scale(ANN, job, Range(3, 3)))
    plane.do(lambda: plane.engine.kill("worker.3"))
    assert told(plane, "worker.0") == {"number": 2, "members": addresses(0, 1, 2), "me": 0, "broken": 2}


def test_seats_that_all_come_anew_are_a_pause_because_the_work_is_in_those_that_go() -> None:
    plane = Plane()
    job = plane.job(a_team(plane, 1))
    new = tuple(Seat(one.role, 9, one.node, (DeviceId("n1-3"),), one.share) for one in job.seats)
    leaving = tuple(replace(seat, leaving=True) for seat in job.seats)
    found = rule(job, Resize(job.id, new + leaving, "moved"), plane.now)
    assert found is not None
    assert found.job.phase is Phase.PAUSING


# ---------------------------------------------------------------------------------------------- losses


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_lost_member_is_replaced_in_place_and_the_others_go_on_at_once(rank: int) -> None:
    plane = Plane()
    job = a_team(plane, 3)
    seat = seat_of(plane.job(job), rank)
    plane.do(lambda: plane.engine.kill(f"worker.{rank}"))
    left = [number for number in range(3) if number != rank]
    after = plane.job(job)
    assert (after.phase, after.attempt, after.team, after.broken, after.lost) == (Phase.RUNNING, 1, 2, 2, 1)
    assert told(plane, f"worker.{left[0]}") == {
        "number": 2,
        "members": addresses(*left),
        "me": 0,
        "broken": 2,
    }
    assert seat_of(after, rank).devices == seat.devices
    assert plane.engine.alive(f"worker.{rank}.2")
    ready(plane, rank)
    assert told(plane, f"worker.{rank}") == {
        "number": 3,
        "members": addresses(*left, rank),
        "me": 2,
        "broken": 2,
    }


def seat_of(job: Job, index: int) -> Any:
    (found,) = (seat for seat in job.staying if seat.index == index)
    return found


def test_several_lost_at_once_are_one_new_team() -> None:
    plane = Plane()
    job = a_team(plane, 4)
    plane.engine.kill("worker.0")
    plane.engine.lose("worker.2")
    plane.engine.exit("worker.3", 75)
    plane.settle()
    assert (plane.job(job).team, plane.job(job).broken, plane.job(job).lost) == (2, 2, 3)
    assert told(plane, "worker.1")["members"] == addresses(1)


def test_a_loss_admits_those_who_are_ready_without_waiting_for_the_rest() -> None:
    plane = Plane()
    job = a_growing_team(plane)
    ready(plane, 3)
    plane.do(lambda: plane.engine.kill("worker.0"))
    assert told(plane, "worker.3")["members"] == addresses(1, 3)
    assert plane.job(job).broken == 2


def test_a_plain_exit_code_of_a_member_is_a_failure_of_the_program() -> None:
    plane = Plane()
    job = a_team(plane, 3)
    plane.do(lambda: plane.engine.exit("worker.1", 1))
    plane.after(10)
    assert plane.phase(job) is Phase.FAILED
    assert "exit code 1" in plane.job(job).reason


def test_with_its_last_member_an_attempt_is_over_whoever_else_boots() -> None:
    plane = Plane()
    job = a_team(plane, 2, retries=1)
    plane.do(lambda: plane.engine.kill("worker.0"))
    plane.do(lambda: plane.engine.kill("worker.1"))
    plane.after(10)
    after = plane.job(job)
    assert (after.attempt, after.team, after.broken, after.failures) == (2, 0, 0, 1)
    assert after.lost == 1
    ready(plane, 0, 1)
    assert told(plane, "worker.0")["number"] == 1


def test_a_worker_that_never_joined_cannot_hurt_whatever_its_end() -> None:
    plane = Plane()
    job = a_team(plane, 3)
    plane.do(lambda: plane.engine.kill("worker.2"))
    before = plane.job(job).team
    plane.do(lambda: plane.engine.exit("worker.2", 1))
    plane.do(lambda: plane.engine.finish("worker.2"))
    assert (plane.phase(job), plane.job(job).team) == (Phase.RUNNING, before)
    assert seat_of(plane.job(job), 2).tries == 2
    ready(plane, 2)
    assert seat_of(plane.job(job), 2).tries == 0
    assert len(worker_group_membership.team(plane.job(job))) == 3


def test_a_seat_in_which_three_end_before_they_join_is_given_up_and_the_job_does_not_grow_for_a_minute() -> (
    None
):
    plane = Plane()
    job = a_team(plane, 3)
    plane.do(lambda: plane.engine.kill("worker.2"))
    for _ in range(3):
        plane.do(lambda: plane.engine.exit("worker.2", 1))
    assert len(plane.job(job).seats) == 2
    assert plane.job(job).not_before == plane.now + worker_group_membership.REST
    assert (plane.job(job).team, plane.phase(job)) == (2, Phase.RUNNING)
    plane.after(worker_group_membership.REST - 1)
    assert len(plane.job(job).seats) == 2
    plane.after(1)
    assert len(plane.job(job).seats) == 3


def test_below_its_smallest_size_a_job_gives_up_the_attempt() -> None:
    plane = Plane(pool="1x3")
    job = a_team(plane, 3, gpus="3..4")
    plane.do(lambda: plane.engine.kill("worker.2"))
    for _ in range(3):
        plane.do(lambda: plane.engine.exit("worker.2", 1))
    plane.after(10)
    assert plane.phase(job) is Phase.FAILED
    assert "ended 3 times before it could join" in plane.job(job).reason


def test_only_allowed_sizes_are_left_when_a_seat_is_given_up() -> None:
    plane = Plane()
    job = a_team(plane, 4, gpus="1..4", sizes=(1, 2, 4))
    plane.do(lambda: plane.engine.kill("worker.1"))
    for _ in range(3):
        plane.do(lambda: plane.engine.exit("worker.1", 1))
    assert told(plane, "worker.0") == {"number": 3, "members": addresses(0, 2), "me": 0, "broken": 2}
    assert [seat.index for seat in plane.job(job).seats] == [0, 2]


def test_a_joiner_that_does_not_get_ready_is_killed_and_counts_as_a_try() -> None:
    plane = Plane()
    plane.engine.obedient = False
    job = a_team(plane, 2)
    plane.do(lambda: plane.engine.kill("worker.1"))
    plane.after(START_TIMEOUT - 1)
    assert plane.engine.alive("worker.1.2")
    plane.after(1)
    assert plane.engine.alive("worker.1.3")
    assert seat_of(plane.job(job), 1).tries == 1
    for _ in range(2):
        plane.after(START_TIMEOUT)
    assert len(plane.job(job).seats) == 1
    assert plane.job(job).team == 2


def test_a_joiner_may_take_three_times_as_long_as_those_before_it() -> None:
    plane = Plane()
    job = plane.submit("e", gpus="1..2")
    plane.engine.advance(100)
    ready(plane, 0, 1)
    plane.do(lambda: plane.engine.kill("worker.1"))
    plane.after(299)
    assert plane.engine.alive("worker.1.2")
    plane.after(1)
    assert plane.engine.alive("worker.1.3")
    assert seat_of(plane.job(job), 1).tries == 1


def test_when_all_members_are_done_the_job_is_and_joiners_are_stopped() -> None:
    plane = Plane()
    job = a_team(plane, 3)
    plane.do(lambda: plane.engine.kill("worker.2"))
    plane.do(lambda: plane.engine.exit("worker.0"))
    assert plane.phase(job) is Phase.RUNNING
    ready(plane, 2)
    assert told(plane, "worker.2")["me"] is None
    plane.do(lambda: plane.engine.exit("worker.1"))
    plane.after(5)
    assert plane.phase(job) is Phase.SUCCEEDED
    assert plane.engine.alive() == []


def test_who_is_done_is_no_member_of_a_team_that_redoes_a_step() -> None:
    plane = Plane()
    job = a_team(plane, 3)
    plane.do(lambda: plane.engine.exit("worker.0"))
    plane.do(lambda: plane.engine.kill("worker.1"))
    assert told(plane, "worker.2")["members"] == addresses(2)
    plane.do(lambda: plane.engine.exit("worker.2"))
    plane.after(5)
    assert plane.phase(job) is Phase.SUCCEEDED


def test_a_member_lost_while_the_job_pauses_leaves_the_others_able_to_save() -> None:
    plane = Plane()
    plane.engine.obedient = False
    job = a_team(plane, 3)
    plane.do(lambda: plane.services.actions.pause(ANN, job))
    plane.do(lambda: plane.engine.kill("worker.0"))
    assert told(plane, "worker.1") == {"number": 2, "members": addresses(1, 2), "me": 0, "broken": 2}
    assert plane.engine.alive("worker.0") == []
    plane.after(2)
    assert plane.phase(job) is Phase.PAUSED


# ------------------------------------------------------------------------------------------ complaints


def complain(plane: Plane, rank: int, since: float, **more: object) -> None:
    number = plane.store.jobs()[0].team
    line = a_word(plane, rank, team=number, waits=since, hang_after=5, **more)
    plane.engine.rings(f"worker.{rank}", line)
    plane.settle()


def beat(plane: Plane, *ranks: int) -> None:
    """They write a line, but ring no bell."""
    for rank in ranks:
        plane.engine.reports(f"worker.{rank}", a_word(plane, rank))


def test_a_member_whose_beat_has_stopped_is_cut_off_and_replaced_after_its_death() -> None:
    plane = Plane()
    plane.engine.obedient = False
    job = a_team(plane, 3)
    plane.engine.advance(5)
    beat(plane, 0, 1)
    complain(plane, 0, plane.now - 1)
    after = plane.job(job)
    assert (after.team, after.broken, after.lost, after.attempt) == (2, 2, 1, 1)
    assert told(plane, "worker.0") == {"number": 2, "members": addresses(0, 1), "me": 0, "broken": 2}
    assert plane.engine.alive("worker.2.2")
    assert seat_of(after, 2).tries == 0


def test_a_member_that_still_computes_is_given_ten_times_as_long() -> None:
    plane = Plane()
    job = a_team(plane, 3)
    since = plane.now
    plane.engine.advance(5)
    beat(plane, 1, 2)
    complain(plane, 0, since)
    assert plane.job(job).team == 1
    for _ in range(8):
        plane.engine.advance(5)
        beat(plane, 1, 2)
        plane.settle()
    assert plane.job(job).team == 1
    plane.after(5)
    assert told(plane, "worker.0")["members"] == addresses(0)
    assert plane.job(job).lost == 2


def test_one_that_is_new_waits_for_the_end_of_a_step_however_long_it_takes() -> None:
    """An evaluation of ten minutes must not cost those who compute it their lives; silence does."""
    plane = Plane()
    job = a_team(plane, 3)
    since = plane.now
    for _ in range(30):
        plane.engine.advance(5)
        beat(plane, 1, 2)
        complain(plane, 0, since, step=0)
    assert (plane.job(job).team, plane.job(job).lost) == (1, 0)
    for _ in range(3):
        plane.engine.advance(5)
        beat(plane, 1)
        complain(plane, 0, since, step=0)
    assert told(plane, "worker.0")["members"] == addresses(0, 1)


def test_one_that_came_when_the_others_were_done_is_alone_with_what_they_saved() -> None:
    plane = Plane()
    job = a_team(plane, 2)
    plane.engine.finish("worker.0")
    plane.settle()
    plane.engine.advance(10)
    complain(plane, 1, plane.now - 6, step=0)
    assert told(plane, "worker.1") == {"number": 2, "members": addresses(1), "me": 0, "broken": 2}
    plane.engine.finish("worker.1")
    plane.settle()
    assert plane.phase(job) is Phase.SUCCEEDED


def test_a_member_that_falls_silent_after_the_others_began_to_wait_is_cut_off_too() -> None:
    plane = Plane()
    job = a_team(plane, 2)
    since = plane.now
    plane.engine.advance(5)
    beat(plane, 1)
    complain(plane, 0, since)
    plane.after(5)
    assert plane.job(job).team == 1
    plane.after(5)
    assert told(plane, "worker.0")["members"] == addresses(0)


def test_nobody_is_taken_for_silent_whose_words_may_be_on_their_way() -> None:
    plane = Plane()
    job = plane.job(a_team(plane, 2))
    plane.engine.advance(7)
    heard = a_word(plane, 1)
    plane.engine.advance(6)
    complaint = a_word(plane, 0, team=1, waits=plane.now - 5.5, hang_after=5)
    lines = {0: complaint, 1: heard}
    own = {
        status.id: replace(status, said=lines[rank])
        for rank in lines
        for status in plane.engine.workers()
        if status.id == plane.engine.find(f"worker.{rank}")
    }
    assert worker_group_membership.advance(job, own, plane.now, 60.0) is not None
    assert worker_group_membership.advance(job, own, plane.now, 60.0, words_late=8.0) is None
    assert worker_group_membership.advance(job, own, plane.now + 3, 60.0, words_late=8.0) is not None


def test_a_complaint_that_has_passed_is_none() -> None:
    plane = Plane()
    job = a_team(plane, 2)
    plane.engine.advance(10)
    plane.engine.rings("worker.0", a_word(plane, 0, team=1, waits=plane.now - 8))
    beat(plane, 0)
    plane.settle()
    assert plane.job(job).team == 1


def test_when_all_wait_for_each_other_they_meet_anew_once() -> None:
    plane = Plane()
    job = a_team(plane, 2)
    plane.engine.advance(10)
    since = plane.now - 6
    for rank in (0, 1):
        plane.engine.rings(f"worker.{rank}", a_word(plane, rank, team=1, waits=since, hang_after=5))
    plane.settle()
    assert told(plane, "worker.0") == {"number": 2, "members": addresses(0, 1), "me": 0, "broken": 2}
    plane.after(60)
    assert plane.job(job).team == 2
    assert plane.job(job).lost == 0


@pytest.mark.parametrize("more", [{"team": 10**9}, {"team": 1, "waits": 1e12}, {"team": -1, "waits": 1e400}])
def test_a_complaint_that_cannot_be_true_is_heard_once_at_most(more: dict[str, Any]) -> None:
    plane = Plane()
    job = a_team(plane, 1)
    plane.engine.advance(10)
    plane.engine.rings("worker.0", a_word(plane, 0, **{"waits": plane.now - 8, **more}))
    plane.settle()
    plane.after(60)
    assert plane.job(job).team <= 2


# --------------------------------------------------------------------------------------------- the rest


def test_a_new_control_plane_tells_every_member_the_same_again() -> None:
    plane = Plane()
    job = a_team(plane, 3)
    plane.do(lambda: plane.engine.kill("worker.1"))
    before = told(plane, "worker.0"), plane.job(job)
    plane.restart()
    plane.settle()
    assert (told(plane, "worker.0"), plane.job(job)) == before


def test_a_worker_that_rang_while_no_control_plane_listened_is_ready_afterwards() -> None:
    plane = Plane()
    job = plane.submit("e", gpus="1..2")
    plane.loop.close()
    for rank in (0, 1):
        plane.engine.rings(f"worker.{rank}", a_word(plane, rank))
    plane.restart()
    plane.settle()
    assert plane.job(job).team == 1


def test_every_change_of_a_team_is_told_in_one_sentence() -> None:
    plane = Plane()
    job = a_team(plane, 2)
    plane.do(lambda: plane.engine.kill("worker.1"))
    ready(plane, 1)
    texts = [event.text for event in plane.store.events(job=job) if event.kind == "team"]
    assert texts == [
        "2 workers compute together as team 1",
        "worker 1 was lost (killed by signal 9); 1 worker computes as team 2",
        "worker 1 joined; 2 workers compute together as team 3",
    ]


@pytest.mark.parametrize("address", ["", "nowhere", ":1", "a:b", "x" * 300 + ":1", 7, None, ["a:1"], "ü:1"])
def test_an_address_that_is_none_makes_nobody_ready(address: object) -> None:
    plane = Plane()
    job = plane.submit("e", gpus="1..2")
    plane.engine.rings("worker.0", json.dumps({"elastic": {"address": address}}))
    plane.after(20)
    assert (plane.job(job).team, plane.job(job).seats[0].address) == (0, "")


def test_seats_and_workers_agree_after_every_loss() -> None:
    """Each seat has one living worker, of the seat's own birth."""
    plane = Plane()
    job = a_team(plane, 4)
    for rank in (0, 3, 0, 2):
        plane.engine.kill(f"worker.{rank}")
        plane.settle()
        expected = {member.id for member in members(plane.job(job))}
        assert set(plane.engine.alive()) == expected
        assert all(status.state is not WorkerState.ENDED for status in plane.engine.workers())


def test_who_has_not_joined_yet_leaves_first_when_a_job_shrinks() -> None:
    plane = Plane()
    job = a_team(plane, 3)
    plane.do(lambda: plane.engine.kill("worker.0"))
    plane.do(lambda: plane.services.actions.scale(ANN, job, Range(2, 2)))
    assert [seat.index for seat in plane.job(job).staying] == [1, 2]
    assert plane.job(job).team == 2
