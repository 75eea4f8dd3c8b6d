"""What a search orders becomes of its trials, once, whatever dies on the way."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from grus.model.identifiers import JobId
from grus.model.jobs import Checkpoint, Job, JobType, Launch, PauseCause, Phase
from grus.model.resources import GPU, Range
from grus.model.sweep_search import Budget, Rule, Stopping, Sweep
from grus.tuning.decide_trials import Room
from grus.tuning.orders import Finish, Order, Pause, Resume, ScaleTrial, Start, Stop
from grus.tuning.sweep_trials import TrialView
from tests.controlplane.plane import ANN, Plane, a_spec
from tests.controlplane.sweeps.test_sweep_controller import LR
from tests.trust.dying import Bomb, Killed, mine

SAVES = Checkpoint(path="/w/saved")


class Once:
    """A search that lets running trials grow, and says so only while they run and have not grown."""

    def __call__(
        self, sweep: Sweep, trials: Sequence[TrialView], room: Room, since: float, now: float
    ) -> tuple[Order, ...]:
        if not trials:
            return (Start(0, (("lr", 0.1),)),)
        return tuple(ScaleTrial(one.number, sweep.grow) for one in trials if one.running and not one.grown)


class Script:
    """A search that wants what the test says."""

    def __init__(self, trials: int = 2) -> None:
        self.trials = trials
        self.orders: list[Order] = []
        self.seen: list[TrialView] = []
        self.room = Room(slots=0)

    def __call__(
        self, sweep: Sweep, trials: Sequence[TrialView], room: Room, since: float, now: float
    ) -> tuple[Order, ...]:
        self.seen, self.room = list(trials), room
        starts = [Start(number, (("lr", 0.1),)) for number in range(len(trials), self.trials)]
        return (*starts, *self.orders)


def a_sweep(plane: Plane, grow: str = "", **spec: object) -> JobId:
    search = Sweep(axes=(LR,), metric="loss", grow=grow, sampler="random", budget=Budget(trials=9))
    search = replace(search, stopping=Stopping(rule=Rule.ASHA, first=3, most=9))
    template = replace(a_spec("tune", **spec), type=JobType.SWEEP, sweep=search)
    id_ = plane.services.actions.submit(ANN, template).result().id
    plane.search()
    return id_


def trial(plane: Plane, sweep: JobId, number: int = 0) -> Job:
    return next(one.job for one in plane.services.sweeps.of(ANN, sweep).trials if one.number == number)


def ordered(plane: Plane, script: Script, *orders: Order) -> None:
    script.orders = list(orders)
    plane.search()


def test_a_trial_waits_at_its_rung_without_gpus_and_goes_on_when_it_is_promoted() -> None:
    script = Script()
    plane = Plane(pool="1x2", search=script)
    sweep = a_sweep(plane, checkpoint=SAVES)
    ordered(plane, script, Pause(0, "others are better at step 3"))
    waits = trial(plane, sweep)
    assert (waits.phase, waits.paused_by, waits.seats) == (Phase.PAUSED, PauseCause.RUNG, ())
    assert waits.verdict == "others are better at step 3"
    assert [view.held_back for view in script.seen] == [True, False]
    ordered(plane, script, Resume(0, "among the best third at step 3"))
    again = trial(plane, sweep)
    assert (again.phase, again.attempt) == (Phase.RUNNING, 2)
    assert [view.held_back for view in script.seen] == [False, False]


def test_gpus_of_a_trial_that_ends_go_to_the_next_at_once() -> None:
    script = Script(trials=3)
    plane = Plane(pool="1x2", search=script)
    sweep = a_sweep(plane)
    assert trial(plane, sweep, 2).phase is Phase.PENDING
    ordered(plane, script, Stop(0, "worse than the median"))
    assert trial(plane, sweep).phase is Phase.STOPPED
    assert trial(plane, sweep).verdict == "worse than the median"
    assert trial(plane, sweep, 2).phase is Phase.RUNNING


def test_a_trial_that_can_grows_while_it_runs() -> None:
    script = Script(trials=1)
    plane = Plane(pool="1x4", search=script)
    sweep = a_sweep(plane, grow="1..4", gpus=1, launch=Launch.PER_GPU)
    assert (trial(plane, sweep).held, trial(plane, sweep).size) == (GPU, Range(1, 1))
    ordered(plane, script, ScaleTrial(0, "1..4"))
    plane.after(5.0)
    grown = trial(plane, sweep)
    assert (grown.held, grown.attempt, grown.grown) == (4 * GPU, 1, True)
    assert script.seen[0].grown
    ordered(plane, script, ScaleTrial(0, ""))
    plane.after(120.0)
    assert trial(plane, sweep).held == GPU


def test_a_slice_becomes_a_whole_gpu_between_two_attempts() -> None:
    script = Script(trials=1)
    plane = Plane(pool="1x4", search=script)
    sweep = a_sweep(plane, grow="1", gpus=0.25, checkpoint=SAVES)
    assert trial(plane, sweep).held == GPU // 4
    ordered(plane, script, ScaleTrial(0, "1"))
    grown = trial(plane, sweep)
    assert (grown.phase, grown.held, grown.attempt) == (Phase.RUNNING, GPU, 2)


def test_a_trial_is_restarted_once_to_grow() -> None:
    plane = Plane(pool="1x4", search=Once())
    sweep = a_sweep(plane, grow="1", gpus=0.25, checkpoint=SAVES)
    plane.after(60.0)
    plane.search()
    grown = trial(plane, sweep)
    assert (grown.phase, grown.held, grown.attempt) == (Phase.RUNNING, GPU, 2)


def test_a_trial_that_would_begin_anew_is_not_restarted_to_grow() -> None:
    plane = Plane(pool="1x4", search=Once())
    sweep = a_sweep(plane, grow="1", gpus=0.25, checkpoint=Checkpoint())
    plane.after(60.0)
    plane.search()
    assert (trial(plane, sweep).held, trial(plane, sweep).attempt) == (GPU // 4, 1)


def test_a_trial_that_waits_at_its_rung_resumes_with_its_new_size() -> None:
    script = Script(trials=1)
    plane = Plane(pool="1x4", search=script)
    sweep = a_sweep(plane, grow="1", gpus=0.25, checkpoint=SAVES)
    ordered(plane, script, Pause(0, "waits"))
    ordered(plane, script, ScaleTrial(0, "1"))
    assert trial(plane, sweep).phase is Phase.PAUSED
    ordered(plane, script, Resume(0, "promoted"))
    assert (trial(plane, sweep).phase, trial(plane, sweep).held) == (Phase.RUNNING, GPU)


def test_a_trial_is_told_where_it_is_to_be_heard() -> None:
    plane = Plane(pool="1x2", search=Script())
    sweep = a_sweep(plane)
    worker = plane.engine.workers_alive.known[plane.engine.find(trial(plane, sweep).id)]
    told = json.loads(dict(worker.spec.env)["GRUS_RUNGS"])
    assert told == {"by": "step", "at": [3.0, 9.0, math.nextafter(9.0, 10.0)], "from": 0.0}


def test_room_is_what_is_free_and_not_yet_waited_for() -> None:
    script = Script()
    plane = Plane(pool="1x4", search=script)
    a_sweep(plane, gpus=0.5)
    assert script.room == Room(slots=6, gpus=3)


# ------------------------------------------------------------------------------------- deaths on the way


class Drive:
    """A whole search; a control plane that is killed is followed by another."""

    def __init__(self, bomb: Bomb) -> None:
        self.script = Script(trials=3)
        self.plane = Plane(pool="1x2", search=self.script)
        mine(self.plane.store, bomb)
        self.deaths = 0

    def go(self) -> None:
        for _ in range(5):
            try:
                self.plane.search()
                return
            except Killed:
                self.deaths += 1
                self.plane.restart()
        raise AssertionError("killed more often than the bomb goes off")

    def do(self, *orders: Order) -> None:
        self.script.orders = list(orders)
        self.go()

    def act(self, what: object) -> None:
        assert callable(what)
        try:
            what()
        except Killed:
            self.deaths += 1
            self.plane.restart()
            what()
        self.go()

    def run(self) -> list[tuple[int, Phase, int]]:
        template = replace(
            a_spec("tune", checkpoint=SAVES),
            type=JobType.SWEEP,
            sweep=Sweep(axes=(LR,), metric="loss", budget=Budget(trials=3), sampler="random"),
        )
        self.act(lambda: self.plane.services.actions.submit(ANN, template, key="tune").result())
        sweep = next(job.id for job in self.plane.store.jobs() if job.spec.type is JobType.SWEEP)
        self.do(Pause(0, "waits"))
        self.act(lambda: self.plane.services.actions.pause(ANN, sweep))
        self.act(lambda: self.plane.services.actions.resume(ANN, sweep))
        self.do(Resume(0, "promoted"), Stop(1, "bad"))
        self.act(lambda: self.plane.engine.finish(trial(self.plane, sweep, 0).id))
        self.do(Finish("enough"))
        self.go()
        assert self.plane.phase(sweep) is Phase.SUCCEEDED
        found = self.plane.services.sweeps.of(ANN, sweep).trials
        return [(one.number, one.job.phase, one.job.attempt) for one in found]


QUIET = Bomb(0)
EXPECTED = Drive(QUIET).run()


@pytest.mark.parametrize("at", range(1, len(QUIET.places) + 1), ids=lambda at: f"{at}-{QUIET.places[at - 1]}")
def test_a_control_plane_that_dies_anywhere_is_followed_by_one_that_goes_on(at: int) -> None:
    drive = Drive(Bomb(at))
    assert drive.run() == EXPECTED
    assert drive.deaths == 1
    assert len(drive.plane.store.jobs()) == 4
