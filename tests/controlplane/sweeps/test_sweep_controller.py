"""A sweep makes its trials, and they are ordinary jobs; it pauses, resumes, stops and ends with them."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from grus.controlplane.sweeps.sweep_summary import winner
from grus.controlplane.sweeps.trial_spec import key
from grus.model.artifacts import Output
from grus.model.errors import BadInput, Conflict, Fenced, NotFound
from grus.model.identifiers import JobId
from grus.model.jobs import Checkpoint, Desired, Job, JobType, PauseCause, Phase
from grus.model.sweep_search import Axis, Budget, Rule, Stopping, Sweep
from grus.tuning import decide_trials, samplers
from grus.tuning.orders import Order
from tests.controlplane.plane import ADMIN, ANN, Plane, a_spec

LR = Axis(name="lr", low=1e-4, high=1.0, log=True)


def a_search(**changes: object) -> Sweep:
    given: dict[str, object] = {
        "axes": (LR,),
        "metric": "loss",
        "sampler": "random",
        "stopping": Stopping(rule=Rule.NONE),
        "budget": Budget(trials=3),
    }
    return Sweep(**(given | changes))  # type: ignore[arg-type]  # keywords of many types


def a_sweep(plane: Plane, search: Sweep | None = None, **spec: object) -> JobId:
    template = replace(a_spec("tune", **spec), type=JobType.SWEEP, sweep=search or a_search())
    id_ = plane.services.actions.submit(ANN, template).result().id
    plane.search()
    return id_


def trials(plane: Plane, sweep: JobId) -> list[Job]:
    return [one.job for one in plane.services.sweeps.of(ANN, sweep).trials]


def says(plane: Plane, trial: Job, ring: bool = True, **figures: float) -> None:
    line = json.dumps({"at": plane.now, "figures": figures})
    (plane.engine.rings if ring else plane.engine.reports)(trial.id, line)
    plane.search()


def finish(plane: Plane, trial: Job, **figures: float) -> None:
    plane.engine.reports(trial.id, json.dumps({"at": plane.now, "figures": figures}))
    plane.engine.finish(trial.id)
    plane.search()


def test_a_sweep_runs_its_trials_and_succeeds_with_the_last() -> None:
    plane = Plane(pool="1x2")
    sweep = a_sweep(plane)
    first = trials(plane, sweep)
    assert [one.spec.trial.number for one in first if one.spec.trial] == [0, 1, 2]
    assert plane.phase(sweep) is Phase.RUNNING
    for number, trial in enumerate(first):
        finish(plane, trial, step=1, loss=3.0 - number)
    job = plane.job(sweep)
    assert job.phase is Phase.SUCCEEDED, job
    view = plane.services.sweeps.of(ANN, sweep)
    assert view.best is not None
    assert (view.best.number, view.best.value) == (2, 1.0)
    assert plane.kinds(sweep) == ["submitted", "starting", "running", "ending", "succeeded"]


def test_the_scheduler_never_sees_a_sweep() -> None:
    plane = Plane(pool="1x2")
    sweep = a_sweep(plane)
    with plane.loop.snapshot() as snapshot:
        assert snapshot.job(sweep) is None
        assert len(snapshot.entries) == 3
    plane.after(120.0)
    assert plane.loop.drift == 0


def test_a_trial_has_its_parameters_its_number_and_a_checkpoint_of_its_own() -> None:
    plane = Plane(pool="1x2")
    sweep = a_sweep(plane, checkpoint=Checkpoint(path="/w/ckpt.pt"))
    one, other, _ = trials(plane, sweep)
    assert one.spec.params != other.spec.params
    assert one.spec.checkpoint.path == f"/w/ckpt-{sweep}-0.pt"
    worker = plane.engine.workers_alive.known[plane.engine.find(one.id)]
    env = dict(worker.spec.env)
    assert json.loads(env["GRUS_PARAMS"]) == dict(one.spec.params)
    assert env["GRUS_TRIAL"] == "0"


def test_the_commands_of_a_trial_and_of_the_best_hold_the_values_of_its_parameters() -> None:
    plane = Plane(pool="1x4")
    line = "train --lr {lr} --data {data} {{lr}}"
    sweep = a_sweep(plane, run=("/bin/sh", "-c", line), params=(("data", "my set"),))
    one, other, _ = trials(plane, sweep)
    for trial in (one, other):
        chosen = dict(trial.spec.params)
        assert chosen["data"] == "my set"
        assert trial.spec.run[2] == f"train --lr {chosen['lr']} --data 'my set' {{lr}}"
    says(plane, other, step=1, loss=0.1)
    assert winner(plane.services.sweeps.of(ANN, sweep)).document["run"] == other.spec.run[2]


def test_the_roles_of_a_trial_hold_its_values_too() -> None:
    plane = Plane(pool="1x4")
    template = a_spec("tune")
    role = replace(template.request.roles[0], run=("train", "{lr}"))
    sweep = a_sweep(plane, run=(), request=replace(template.request, roles=(role,)))
    trial = trials(plane, sweep)[0]
    assert trial.spec.request.roles[0].run == ("train", str(dict(trial.spec.params)["lr"]))


def test_nothing_is_made_twice_by_a_new_control_plane() -> None:
    plane = Plane(pool="1x2")
    sweep = a_sweep(plane)
    before = trials(plane, sweep)
    plane.restart()
    plane.search()
    assert [one.id for one in trials(plane, sweep)] == [one.id for one in before]
    again = replace(before[0], id=JobId("jother00000"), version=0, phase=Phase.PENDING, seats=())
    event = plane.store.events(job=before[0].id)[0]
    found = plane.store.create(replace(again, spec=before[0].spec), event, key(sweep, 0)).result()
    assert found.id == before[0].id


def test_a_control_plane_that_was_replaced_makes_no_trials() -> None:
    def late(*given: Any) -> tuple[Order, ...]:
        plane.store.take_over()  # by another one, while this one thinks
        return decide_trials.decide(*given)

    plane = Plane(pool="1x2", search=late)
    with pytest.raises(Fenced):
        a_sweep(plane)
    assert not [job for job in plane.store.jobs() if job.spec.trial is not None]


def test_a_paused_sweep_holds_nothing_and_goes_on_when_it_is_resumed() -> None:
    plane = Plane(pool="1x2")
    plane.engine.obedient = False
    sweep = a_sweep(plane)
    plane.services.actions.pause(ANN, sweep)
    plane.search()
    assert plane.phase(sweep) is Phase.PAUSING
    assert plane.engine.held()
    plane.engine.advance(60.0)
    plane.search()
    assert plane.phase(sweep) is Phase.PAUSED
    assert not plane.engine.alive()
    assert {one.paused_by for one in trials(plane, sweep)} == {PauseCause.SWEEP}
    plane.services.actions.resume(ANN, sweep)
    plane.search()
    assert plane.phase(sweep) is Phase.RUNNING
    assert sum(one.phase is Phase.RUNNING for one in trials(plane, sweep)) == 2


def test_a_stopped_sweep_ends_all_its_trials() -> None:
    plane = Plane(pool="1x2")
    sweep = a_sweep(plane)
    plane.services.actions.stop(ANN, sweep)
    plane.search()
    plane.engine.advance(60.0)
    plane.search()
    assert plane.phase(sweep) is Phase.STOPPED
    assert {one.phase for one in trials(plane, sweep)} == {Phase.STOPPED}


def test_a_sweep_that_is_stopped_while_it_is_paused_leaves_no_trial_behind() -> None:
    plane = Plane(pool="1x2")
    sweep = a_sweep(plane)
    plane.services.actions.pause(ANN, sweep)
    plane.search()
    plane.engine.advance(60.0)
    plane.search()
    plane.services.actions.stop(ANN, sweep)
    plane.restart()
    plane.search()
    assert {one.phase for one in trials(plane, sweep)} == {Phase.STOPPED}


def test_a_target_that_is_reached_ends_the_rest() -> None:
    plane = Plane(pool="1x2")
    sweep = a_sweep(plane, a_search(budget=Budget(trials=9, target=0.5)))
    says(plane, trials(plane, sweep)[0], step=1, loss=0.4)
    plane.engine.advance(60.0)
    plane.search()
    job = plane.job(sweep)
    assert job.phase is Phase.SUCCEEDED
    assert job.exit is not None
    assert "target" in job.exit.text
    figures = dict(job.progress)
    assert figures["ended"] == figures["trials"] == len(trials(plane, sweep))


def test_a_trial_is_heard_when_it_rings_and_not_seconds_later() -> None:
    plane = Plane(pool="1x2")
    sweep = a_sweep(plane)
    says(plane, trials(plane, sweep)[0], step=3, loss=0.4)
    assert plane.services.sweeps.of(ANN, sweep).trials[0].curve == ((3.0, 0.4),)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_trial_that_has_diverged_is_ended_and_says_so(loss: float) -> None:
    plane = Plane(pool="1x2")
    sweep = a_sweep(plane)
    first, second, third = trials(plane, sweep)
    says(plane, first, step=1, loss=0.5)
    says(plane, first, step=3, loss=loss)
    job = plane.job(first.id)
    assert (job.phase, job.diverged) == (Phase.STOPPED, ("loss",))
    assert "no number" in job.verdict
    assert plane.phase(third.id) is Phase.RUNNING  # its GPU has gone to the next
    assert plane.phase(second.id) is Phase.RUNNING


def test_a_trial_that_never_reports_the_metric_is_ended_after_its_patience() -> None:
    plane = Plane(pool="1x4")
    sweep = a_sweep(plane, a_search(patience=60.0))
    silent, *others = trials(plane, sweep)
    for other in others:
        says(plane, other, step=1, loss=1.0)
    says(plane, silent, step=1, accuracy=0.5)
    plane.engine.advance(61.0)
    plane.search()
    assert plane.phase(silent.id) is Phase.STOPPED
    assert "never reported loss" in plane.job(silent.id).verdict
    assert {plane.phase(other.id) for other in others} == {Phase.RUNNING}


def test_a_trial_at_its_end_may_end_by_itself_and_one_beyond_it_is_ended() -> None:
    plane = Plane(pool="1x4")
    sweep = a_sweep(plane, a_search(stopping=Stopping(rule=Rule.NONE, most=9)))
    there, beyond, _ = trials(plane, sweep)
    says(plane, there, step=9, loss=1.0)
    says(plane, beyond, step=10, loss=1.0)
    assert plane.phase(there.id) is Phase.RUNNING
    assert plane.phase(beyond.id) is Phase.STOPPED


def test_the_time_of_a_search_does_not_pass_while_it_is_paused() -> None:
    plane = Plane(pool="1x4")
    sweep = a_sweep(plane, a_search(budget=Budget(trials=3, seconds=100.0)))
    plane.engine.advance(50.0)
    plane.services.actions.pause(ANN, sweep)
    plane.search()
    plane.engine.advance(1000.0)
    plane.services.actions.resume(ANN, sweep)
    plane.search()
    assert plane.phase(sweep) is Phase.RUNNING
    plane.engine.advance(51.0)
    plane.search()
    assert plane.job(sweep).exit is not None


def test_gpu_hours_of_all_trials_end_a_search() -> None:
    plane = Plane(pool="1x4")
    sweep = a_sweep(plane, a_search(budget=Budget(gpu_seconds=400.0)))
    says(plane, trials(plane, sweep)[0], step=1, loss=1.0)
    plane.engine.advance(99.0)
    plane.search()
    assert plane.job(sweep).exit is None
    plane.engine.advance(2.0)
    plane.search()
    assert plane.phase(sweep) is Phase.SUCCEEDED
    assert "GPU-hours" in plane.job(sweep).reason


def test_a_sweep_in_which_nothing_was_ever_reported_fails_and_says_so() -> None:
    plane = Plane(pool="1x4")
    sweep = a_sweep(plane)
    for trial in trials(plane, sweep):
        plane.engine.finish(trial.id)
        plane.search()
    job = plane.job(sweep)
    assert job.phase is Phase.FAILED, job
    assert "none has reported loss" in job.reason
    with pytest.raises(Conflict, match="no trial"):
        winner(plane.services.sweeps.of(ANN, sweep))


def test_what_a_person_paused_the_sweep_does_not_resume() -> None:
    plane = Plane(pool="1x4")
    sweep = a_sweep(plane)
    trial = trials(plane, sweep)[0]
    plane.services.actions.pause(ANN, trial.id)
    plane.search()
    plane.engine.advance(60.0)
    plane.search()
    job = plane.job(trial.id)
    assert (job.phase, job.desired, job.paused_by) == (Phase.PAUSED, Desired.PAUSE, PauseCause.PERSON)


def test_a_job_that_comes_after_a_sweep_waits_for_it_and_starts_then() -> None:
    plane = Plane(pool="1x4")
    sweep = a_sweep(plane, a_search(budget=Budget(trials=1)))
    later = plane.submit("later", after=[sweep])
    assert plane.phase(later) is Phase.PENDING
    finish(plane, trials(plane, sweep)[0], step=1, loss=1.0)
    assert plane.phase(sweep) is Phase.SUCCEEDED
    assert plane.phase(later) is Phase.RUNNING


def test_a_sweep_comes_after_other_jobs_like_any_job() -> None:
    plane = Plane(pool="1x4")
    first = plane.submit("first")
    sweep = a_sweep(plane, after=[first])
    assert plane.phase(sweep) is Phase.PENDING
    assert not trials(plane, sweep)
    plane.engine.finish(first)
    plane.settle()
    plane.search()
    assert len(trials(plane, sweep)) == 3


def test_the_best_trial_is_a_job_file_with_its_parameters() -> None:
    plane = Plane(pool="1x4")
    sweep = a_sweep(plane)
    trial = trials(plane, sweep)[1]
    says(plane, trial, step=1, loss=0.1)
    best = winner(plane.services.sweeps.of(ANN, sweep))
    assert best.trial == 1
    assert best.document["params"] == dict(trial.spec.params)
    assert best.document["name"] == "tune-best"


def test_a_job_that_is_no_sweep_is_not_shown_as_one() -> None:
    plane = Plane(pool="1x4")
    job = plane.submit("plain")
    with pytest.raises(NotFound):
        plane.services.sweeps.of(ADMIN, job)


def test_a_sweep_cannot_be_scaled() -> None:
    plane = Plane(pool="1x4")
    sweep = a_sweep(plane)
    with pytest.raises(Conflict, match="sweep"):
        plane.services.actions.scale(ANN, sweep, None)


def test_what_a_sampler_needs_is_said_before_anything_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers, "missing", lambda sampler: f"{sampler} needs something")
    plane = Plane(pool="1x4")
    with pytest.raises(BadInput, match="needs something"):
        a_sweep(plane)
    assert plane.store.jobs() == []


def test_a_sweep_leaves_what_the_best_trial_that_succeeded_has_left() -> None:
    plane = Plane(pool="1x4")
    sweep = a_sweep(plane, a_search(budget=Budget(trials=2)), outputs=(Output("model"),))
    for number, (trial, loss) in enumerate(zip(trials(plane, sweep), (2.0, 1.0), strict=True)):
        told = ["model", f"{number}" * 64, 3]
        line = {"at": plane.now, "figures": {"step": 1, "loss": loss}, "artefacts": [told]}
        plane.engine.reports(trial.id, json.dumps(line))
        plane.engine.finish(trial.id)
        plane.search()
    assert plane.phase(sweep) is Phase.SUCCEEDED
    assert [one.digest for one in plane.job(sweep).artefacts] == ["1" * 64]


def test_a_search_that_cannot_decide_says_so_and_goes_on_when_it_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> tuple[Order, ...]:
        raise ZeroDivisionError("a flaw of the sampler")

    plane = Plane(pool="1x2")
    monkeypatch.setattr(plane.sweeper, "_decide", broken)
    sweep = a_sweep(plane)
    plane.search()
    assert "ZeroDivisionError: a flaw of the sampler" in plane.job(sweep).reason
    told = plane.job(sweep).version
    plane.search()
    assert plane.job(sweep).version == told
    monkeypatch.setattr(plane.sweeper, "_decide", decide_trials.decide)
    plane.search()
    assert "flaw" not in plane.job(sweep).reason
    assert len(trials(plane, sweep)) == 3
