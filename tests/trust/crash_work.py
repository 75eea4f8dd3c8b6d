"""What happens to stages and sweeps, told as stories that can be killed at any point (see `crash_jobs`)."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from unittest.mock import patch

from grus.api.inputs.yaml_job_file import parse_job_file
from grus.controlplane.fingerprint import fingerprints
from grus.controlplane.jobs.stage_cache import Skipping
from grus.model.identifiers import JobId, NodeId
from grus.model.jobs import Job, JobType, Phase
from grus.model.sweep_search import Axis, Budget, Rule, Stopping, Sweep
from tests.controlplane.plane import ANN, a_spec
from tests.trust.dying import Drive

CHAIN = """
resources: {gpu: 1}
stages:
  a: {run: x}
  b: {run: x, after: [a]}
  c: {run: x, after: [b]}
"""
LEAVING = """
resources: {gpu: 1}
stages:
  a: {run: python a.py, outputs: [d]}
  b: {run: python b.py, inputs: {d: a.d}}
"""


def staged(drive: Drive) -> dict[str, Phase]:
    """Stages are submitted all or none; one fails and those after it; they are tried again from there."""
    drive.left = lambda: _require_whole(drive, {"a", "b", "c"}, {"b", "c"})
    stages = parse_job_file(CHAIN, folder="/nowhere")
    drive.do(lambda: _name(drive, drive.plane.services.workflows.submit(ANN, stages, key="k")))
    assert [drive.job(name).spec.graph for name in "abc"] == [drive.ids["a"]] * 3
    drive.finish("a")
    drive.do(lambda: drive.plane.engine.exit(f"{drive.ids['b']}.", 1))
    drive.do(
        lambda: _name(drive, drive.plane.services.workflows.retry(ANN, drive.ids["b"], key="r"), "again-")
    )
    assert drive.job("again-c").spec.after == (drive.ids["again-b"],)
    for name in ("again-b", "again-c"):
        drive.finish(name)
    ended = dict.fromkeys(("a", "again-b", "again-c"), Phase.SUCCEEDED)
    return ended | dict.fromkeys(("b", "c"), Phase.FAILED)


def _require_whole(drive: Drive, *submitted: set[str]) -> None:
    """Of each submission all jobs are on record, or none, though nobody has asked again."""
    found: dict[JobId | None, set[str]] = {}
    for job in drive.plane.store.jobs():
        found.setdefault(job.spec.graph, set()).add(job.spec.name)
    for names in found.values():
        assert names in submitted, f"of a submission only {sorted(names)} are on record"


def _name(drive: Drive, jobs: Sequence[Job], prefix: str = "") -> None:
    drive.ids.update({prefix + job.spec.name: job.id for job in jobs})


def skipped(drive: Drive) -> dict[str, Phase]:
    """Stages run; submitted again, the one of which nothing has changed is not, and the next is given it."""
    for name in "ab":
        (drive.folder / f"{name}.py").write_text("print(1)\n")
    _compare(drive)
    stages = parse_job_file(LEAVING, folder=str(drive.folder))
    old = drive.plane.now - 3600  # the plane lives in a time of its own, and so do its files
    with patch.object(fingerprints, "_changed", lambda _: old):
        drive.do(lambda: _name(drive, drive.plane.services.workflows.submit(ANN, stages, key="1"), "first-"))
        drive.do(lambda: _leaves(drive, drive.ids["first-a"]))
        drive.finish("first-a")
        drive.finish("first-b")
        drive.do(lambda: _name(drive, drive.plane.services.workflows.submit(ANN, stages, key="2"), "second-"))
        drive.finish("second-b")
    assert drive.job("second-a").same_as == drive.ids["first-a"]
    assert drive.job("second-a").attempt == 0, "it has not run"
    return {f"{key}-{name}": Phase.SUCCEEDED for key in ("first", "second") for name in "ab"}


def _compare(drive: Drive) -> None:
    """Each control plane compares stages with earlier runs, by a thread of its own that is driven here."""
    compared: list[Skipping] = []

    def begin() -> None:
        compared[:] = [
            Skipping(
                drive.plane.store,
                holds=lambda *_: True,
                near=lambda job: (NodeId("n1"),) if job.spec.inputs else (),
                epoch=lambda: drive.plane.loop.pulse.epoch,
                clock=lambda: drive.plane.now,
            )
        ]

    def ask(job: JobId) -> None:
        compared[0].ask(job)

    def rest() -> None:
        for _ in range(4):  # stages, each of which may let the next be compared
            drive.plane.settle()
            compared[0].step()
        drive.plane.settle()

    begin()
    drive.reborn, drive.rest, drive.plane.compare = begin, rest, ask


def _leaves(drive: Drive, job: JobId) -> None:
    line = {"at": drive.plane.now, "artefacts": [["d", "ab" * 32, 7]]}
    drive.plane.engine.reports(f"{job}.", json.dumps(line))


def searched(drive: Drive) -> dict[str, Phase]:
    """A trial ends and the next one is made; the sweep is paused, resumed, and ends with its last trial."""
    drive.rest = lambda: drive.plane.search()
    search = Sweep(
        axes=(Axis(name="lr", low=1e-4, high=1.0, log=True),),
        metric="loss",
        sampler="random",
        stopping=Stopping(rule=Rule.NONE),
        budget=Budget(trials=3),
        parallel=2,
    )
    spec = replace(a_spec("tune"), type=JobType.SWEEP, sweep=search)
    drive.do(lambda: _name(drive, [drive.plane.services.actions.submit(ANN, spec, key="tune").result()]))
    assert len(_trials(drive)) == 2
    drive.do(_ends(drive, 0))
    assert len(_trials(drive)) == 3
    drive.do(lambda: drive.plane.services.actions.pause(ANN, drive.ids["tune"]))
    assert (drive.job("tune").phase, drive.plane.engine.alive()) == (Phase.PAUSED, [])
    drive.do(lambda: drive.plane.services.actions.resume(ANN, drive.ids["tune"]))
    drive.do(_ends(drive, 1))
    drive.do(_ends(drive, 2))
    return {"tune": Phase.SUCCEEDED}


def _trials(drive: Drive) -> list[Job]:
    return [one.job for one in drive.plane.services.sweeps.of(ANN, drive.ids["tune"]).trials]


def _ends(drive: Drive, number: int) -> Callable[[], None]:
    """A trial tells its figure and ends."""

    def end() -> None:
        trial = f"{_trials(drive)[number].id}."
        line = {"at": drive.plane.now, "figures": {"step": 1, "loss": 3.0 - number}}
        drive.plane.engine.reports(trial, json.dumps(line))
        drive.plane.engine.finish(trial)

    return end
