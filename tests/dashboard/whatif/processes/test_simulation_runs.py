"""Simulations asked for by people: the very simulator, in a process, one at a time, that can be stopped."""

import io
import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from grus.dashboard.whatif.simulation_form import Question
from grus.dashboard.whatif.simulation_runs import COMMAND, Play, Plays, SimulationState
from grus.dashboard.whatif.simulation_worker import answered, play
from grus.model.errors import BadInput, Conflict, Mistake, NotAllowed, NotFound
from grus.model.identifiers import UserName
from grus.model.interfaces import AccessRole, User
from grus.simulator.cluster_spec import parse_nodes, quotas_by_use
from grus.simulator.whatif_scenarios import PRESENT, Scenario, ScenarioChange, compare
from grus.simulator.workload.synthetic import Mix, synthesize
from tests.server.process import eventually

ADA = User(name=UserName("ada"))
BEN = User(name=UserName("ben"))
ADMIN = User(name=UserName("admin"), role=AccessRole.ADMIN)
SILENT = (sys.executable, "-c", "import sys; sys.stdin.buffer.read()")
"""In place of the simulator: it never says anything, and ends when its input does."""


def a_question(**changes: Any) -> Question:
    works = synthesize(Mix(days=1, jobs=40, largest=4), 0)
    nodes = parse_nodes("2x4xA100")
    present = Scenario(PRESENT, nodes, tuple(quotas_by_use(works, nodes, least=1)), tuple(works))
    return replace(
        Question(
            title="made up", present=present, change=ScenarioChange(add_nodes="1x4xA100"), notes=("a note",)
        ),
        **changes,
    )


@pytest.fixture
def plays() -> Iterator[Plays]:
    made = Plays(clock=lambda: 1000.0)
    yield made
    made.close()


@pytest.fixture
def silent() -> Iterator[Plays]:
    made = Plays(clock=lambda: 1000.0, command=SILENT)
    yield made
    made.close()


def ended(plays: Plays, user: User = ADA) -> Play:
    def over() -> bool:
        found = plays.of(user)
        return found is not None and not found.under_way

    eventually(over, "the simulation has ended")
    found = plays.of(user)
    assert found is not None
    return found


def test_the_answer_is_that_of_the_very_simulator(plays: Plays) -> None:
    question = a_question()
    plays.begin(ADA, lambda: question)
    found = ended(plays)
    assert found.stage is SimulationState.DONE, found
    meant = answered(question, compare(question.present, question.change, draw=True))
    assert json.loads(found.answer) == json.loads(json.dumps(meant))
    assert "buy" in json.loads(found.answer)["sentences"][0]
    assert json.loads(found.answer)["notes"][0] == "a note"


def test_it_tells_how_far_it_is_in_jobs_that_have_ended() -> None:
    told: list[dict[str, object]] = []
    ticks = iter(range(1_000_000))
    play(a_question(), told.append, lambda: float(next(ticks)))
    steps = [(said["done"], said["of"]) for said in told[:-1]]
    jobs = 3 * len(a_question().present.works)  # the present, the change, the static split
    assert len(steps) > 3
    assert steps == sorted(steps)
    assert steps[-1] == (jobs, jobs)
    assert list(told[-1]) == ["answer"]


def test_mistakes_that_only_the_simulator_sees_are_all_named(plays: Plays) -> None:
    plays.begin(ADA, lambda: a_question(change=ScenarioChange(remove=("node-7",), quotas={"nowhere": 2})))
    found = ended(plays)
    assert found.stage is SimulationState.REFUSED
    assert {(one.field, one.value) for one in found.mistakes} == {("remove", "node-7"), ("quota", "nowhere")}


def test_mistakes_found_while_jobs_are_gathered_are_told(plays: Plays) -> None:
    def nothing() -> Question:
        raise BadInput([Mistake("source", "has no job")])

    plays.begin(ADA, nothing)
    assert [one.field for one in ended(plays).mistakes] == ["source"]


def test_only_one_runs_at_a_time_and_the_next_can_begin_when_it_has_ended(silent: Plays) -> None:
    silent.begin(ADA, a_question)
    with pytest.raises(Conflict, match="of somebody else"):
        silent.begin(BEN, a_question)
    with pytest.raises(Conflict, match="yours"):
        silent.begin(ADA, a_question)
    assert silent.other(BEN) == "somebody else"
    assert silent.other(ADMIN) == "ada"
    assert silent.other(ADA) == ""
    silent.stop(ADA)
    assert ended(silent).stage is SimulationState.STOPPED
    silent.begin(BEN, a_question)


def test_who_asked_and_administrators_may_stop_it_others_may_not(silent: Plays) -> None:
    with pytest.raises(NotFound):
        silent.stop(ADA)
    silent.begin(ADA, a_question)
    with pytest.raises(NotAllowed, match="somebody else"):
        silent.stop(BEN)
    silent.stop(ADMIN)
    found = ended(silent)
    assert (found.stage, found.text) == (SimulationState.STOPPED, "admin stopped it")


def test_one_that_takes_too_long_is_ended_and_says_so() -> None:
    plays = Plays(clock=lambda: 0.0, command=SILENT, longest=0.05)
    plays.begin(ADA, a_question)
    found = ended(plays)
    assert (found.stage, found.text) == (SimulationState.STOPPED, "it took longer than 0.05 s")


def test_a_process_that_dies_is_a_failure_that_is_told_and_not_the_end_of_the_server() -> None:
    plays = Plays(clock=lambda: 0.0, command=(sys.executable, "-c", "raise SystemExit(3)"))
    plays.begin(ADA, a_question)
    found = ended(plays)
    assert found.stage is SimulationState.FAILED
    assert "code 3" in found.text
    plays.begin(ADA, a_question)
    ended(plays)


def test_a_surprise_on_the_way_is_a_failure_and_the_next_one_can_begin() -> None:
    plays = Plays(clock=lambda: 0.0)

    def surprise() -> Question:
        raise ZeroDivisionError

    plays.begin(ADA, surprise)
    found = ended(plays)
    assert found.stage is SimulationState.FAILED
    assert "log" in found.text
    plays.begin(ADA, surprise)
    ended(plays)


def test_closing_ends_what_is_under_way(silent: Plays) -> None:
    silent.begin(ADA, a_question)
    silent.close()
    found = silent.of(ADA)
    assert found is not None
    assert (found.stage, found.text) == (SimulationState.STOPPED, "the server stopped")


def test_each_person_finds_their_own_last_answer(plays: Plays) -> None:
    plays.begin(ADA, a_question)
    ended(plays, ADA)
    assert plays.of(BEN) is None


def test_the_process_ends_when_the_server_that_started_it_is_gone() -> None:
    endless = a_question(seeds=500)
    process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        into = io.BytesIO()
        pickle.dump(endless, into)
        process.stdin.write(into.getvalue())
        process.stdin.flush()
        assert b"done" in process.stdout.readline()  # it is at work
        process.stdin.close()
        assert process.wait(300) == 1
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
