"""The control plane is killed before and after every write and every effect of several scenarios; each time a
new one takes over, and everything ends as if nothing had happened."""

import json
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from grus.model.artefacts import Artefact, Input, Output
from grus.model.identifiers import JobId
from grus.model.jobs import Exit, ExitCause, Job, Phase
from grus.model.ports import Event
from grus.model.queues import Queue
from grus.model.resources import Range
from grus.store.memory import MemoryStore
from tests.controlplane.plane import ANN, Plane, a_spec
from tests.scheduling.builders import GB, a_queue, a_role


class Killed(BaseException):
    """Not an Exception: nothing in the control plane may catch it."""


class Bomb:
    """Goes off at the n-th place where it is asked; never for n = 0."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.places: list[str] = []

    def __call__(self, place: str) -> None:
        self.places.append(place)
        if len(self.places) == self.at:
            raise Killed(place)


class MinedStore(MemoryStore):
    """A store whose writes of jobs can be the last thing that a control plane does."""

    def __init__(self, bomb: Bomb) -> None:
        super().__init__()
        self.bomb = bomb

    def replace(self, job: Job, event: Event | None, epoch: int | None = None) -> "Future[Job]":
        what = f"write {event.kind if event else ''} {job.id}"
        self.bomb(f"before {what}")
        future = super().replace(job, event, epoch)
        self.bomb(f"after {what}")
        return future


@dataclass
class Drive:
    """A scenario under way: whatever is killed is done again by the next control plane."""

    plane: Plane
    ids: dict[str, JobId] = field(default_factory=dict)
    deaths: int = 0

    def do(self, what: Callable[[], object]) -> None:
        """Something outside happens or somebody asks; a person who got no answer asks again."""
        try:
            what()
        except Killed:
            self._again()
            what()
        self.settle()

    def submit(self, name: str, **spec: object) -> None:
        made = a_spec(name, **spec)
        self.do(lambda: self.ids.update({name: self.plane.services.submit(ANN, made, key=name).result().id}))

    def settle(self) -> None:
        try:
            self.plane.settle()
        except Killed:
            self._again()
            self.plane.settle()

    def after(self, seconds: float) -> None:
        # Graces end while nobody watches, if that is how it falls.
        self.plane.engine.advance(seconds)
        self.settle()

    def _again(self) -> None:
        self.deaths += 1
        self.plane.restart()


def ordinary(drive: Drive) -> dict[str, Phase]:
    """A gang runs to its end."""
    drive.submit("a", gpus=2)
    drive.do(lambda: drive.plane.engine.finish(drive.ids["a"]))
    return {"a": Phase.SUCCEEDED}


def failing(drive: Drive) -> dict[str, Phase]:
    """A worker fails while its gang runs; the rest takes its time; a retry succeeds."""
    drive.plane.engine.obedient = False
    drive.submit("a", gpus=3, retries=1, setup=("true",))
    drive.do(lambda: drive.plane.engine.finish("setup"))
    drive.do(lambda: drive.plane.engine.finish("worker.1"))
    drive.do(lambda: drive.plane.engine.exit("worker.0", 1))
    drive.after(6)
    drive.after(2)
    drive.do(lambda: drive.plane.engine.finish("setup"))
    drive.do(lambda: drive.plane.engine.finish(drive.ids["a"]))
    return {"a": Phase.SUCCEEDED}


def reclaimed(drive: Drive) -> dict[str, Phase]:
    """A borrower is paused for the owner and resumed later."""
    drive.plane.engine.obedient = False
    drive.submit("a", queue="A", gpus=4)
    drive.submit("b", queue="B", gpus=2)
    drive.after(2)
    drive.do(lambda: drive.plane.engine.finish(drive.ids["b"]))
    drive.do(lambda: drive.plane.engine.finish(drive.ids["a"]))
    return {"a": Phase.SUCCEEDED, "b": Phase.SUCCEEDED}


def resized(drive: Drive) -> dict[str, Phase]:
    """An elastic job shrinks for another, grows again, is scaled by a person and stopped."""
    drive.plane.engine.obedient = False
    drive.submit("e", gpus="1..4")
    drive.submit("r", gpus=2)
    drive.after(2)
    drive.do(lambda: drive.plane.engine.finish(drive.ids["r"]))
    drive.do(lambda: drive.plane.services.scale(ANN, drive.ids["e"], Range(1, 1)))
    drive.after(2)
    drive.do(lambda: drive.plane.services.stop(ANN, drive.ids["e"]))
    drive.after(2)
    return {"e": Phase.STOPPED, "r": Phase.SUCCEEDED}


def paused(drive: Drive) -> dict[str, Phase]:
    """A person pauses, resumes and stops; a stage waits for another and fails with it."""
    drive.submit("p", gpus=2)
    drive.submit("q", gpus=1, after=[drive.ids["p"]])
    drive.do(lambda: drive.plane.services.pause(ANN, drive.ids["p"]))
    drive.do(lambda: drive.plane.services.resume(ANN, drive.ids["p"]))
    drive.do(lambda: drive.plane.services.stop(ANN, drive.ids["p"]))
    return {"p": Phase.STOPPED, "q": Phase.FAILED}


def led(drive: Drive) -> dict[str, Phase]:
    """A launcher ends, and its workers are stopped."""
    drive.plane.engine.obedient = False
    drive.submit("l", roles=(a_role("launcher", 1, 0), a_role("worker", 2, 1)))
    drive.do(lambda: drive.plane.engine.finish("launcher"))
    drive.after(6)
    return {"l": Phase.SUCCEEDED}


def lost(drive: Drive) -> dict[str, Phase]:
    """A supervisor is lost and the attempt begun anew."""
    drive.submit("x", gpus=2)
    drive.do(lambda: drive.plane.engine.lose(".1.worker.0"))
    drive.after(2)
    drive.do(lambda: drive.plane.engine.finish(drive.ids["x"]))
    return {"x": Phase.SUCCEEDED}


def enlarged(drive: Drive) -> dict[str, Phase]:
    """A slice falls short twice, and its job starts again with a larger one, whoever dies on the way."""
    out = Exit(ExitCause.GPU_MEMORY, 1, "CUDA out of memory")
    drive.submit("s", gpus="4GB")
    for attempt in (2, 3):
        drive.do(lambda: drive.plane.engine.fail(f"{drive.ids['s']}.", out))
        drive.after(2)
        assert drive.plane.job(drive.ids["s"]).attempt == attempt
    drive.do(lambda: drive.plane.engine.finish(drive.ids["s"]))
    done = drive.plane.job(drive.ids["s"])
    assert (done.spec.request.roles[0].replica.gpu_memory, done.failures) == (9 * GB, 0)
    return {"s": Phase.SUCCEEDED}


def together(drive: Drive) -> dict[str, Phase]:
    """A team forms, loses a member, takes in another, shrinks, cuts one off that hangs, and is done."""
    engine = drive.plane.engine
    engine.obedient = False

    def says(worker: str, **more: object) -> None:
        word = {"address": f"127.0.0.1:{4000 + int(worker[0])}", **more}
        drive.do(lambda: drive.plane.engine.rings(f"worker.{worker}", json.dumps({"at": 0, "elastic": word})))

    drive.submit("t", gpus="1..4")
    for number in range(4):
        says(f"{number}")
    drive.do(lambda: drive.plane.engine.kill("worker.1."))
    says("1")
    drive.do(lambda: drive.plane.services.scale(ANN, drive.ids["t"], Range(1, 3)))
    drive.do(lambda: drive.plane.engine.exit("worker.1."))
    says("0", waits=1.0, team=4)
    drive.do(lambda: drive.plane.engine.finish(drive.ids["t"]))
    drive.after(6)
    return {"t": Phase.SUCCEEDED}


def handed_on(drive: Drive) -> dict[str, Phase]:
    """One leaves something behind, the next is given it; a pause comes while its own output is being kept."""
    kept = {"artefacts": [["data", "ab" * 32, 7]]}
    drive.submit("a", outputs=(Output("data"),))
    first = drive.ids["a"]
    drive.submit("b", inputs=(Input("in", first, "data"),), outputs=(Output("data"),), after=[first])
    drive.do(lambda: drive.plane.engine.reports(first, json.dumps(kept)))
    drive.do(lambda: drive.plane.engine.finish(first))
    second = drive.ids["b"]
    (worker,) = drive.plane.engine.alive(second)
    assert "ab" * 32 in " ".join(drive.plane.engine.workers_alive.known[worker].spec.argv)
    drive.do(lambda: drive.plane.engine.reports(second, json.dumps(kept)))
    drive.do(lambda: _unless_ended(drive, second))
    for name in ("a", "b"):
        assert drive.plane.job(drive.ids[name]).artefacts == (Artefact("data", "ab" * 32, 7),)
    return {"a": Phase.SUCCEEDED, "b": Phase.SUCCEEDED}


def _unless_ended(drive: Drive, job: JobId) -> None:
    """A pause; asked for again after a crash, the job may have ended by it."""
    if not drive.plane.job(job).terminal:
        drive.plane.services.pause(ANN, job)


SCENARIOS = [ordinary, failing, reclaimed, resized, paused, led, lost, enlarged, together, handed_on]
QUEUES: tuple[Queue, ...] = (a_queue("A", quota=1), a_queue("B", quota=2))


def run(scenario: Callable[[Drive], dict[str, Phase]], at: int, state: Path) -> tuple[Drive, Bomb]:
    bomb = Bomb(at)
    drive = Drive(Plane(*QUEUES, store=MinedStore(bomb), state=state))
    drive.plane.engine.trap = bomb
    expected = scenario(drive)
    found = {name: drive.plane.phase(id_) for name, id_ in drive.ids.items()}
    assert found == expected, f"killed at {bomb.places[at - 1] if at else 'no place'}"
    assert drive.plane.engine.alive() == []
    assert drive.plane.engine.workers() == ()
    started = drive.plane.engine.workers_alive.started
    assert len(started) == len(set(started)), "a worker was started twice"
    drive.plane.close()
    return drive, bomb


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_crash_at_any_point_changes_nothing_in_the_end(
    scenario: Callable[[Drive], dict[str, Phase]], tmp_path: Path
) -> None:
    """At every point in turn, and with the same attempts as without a crash."""
    calm, bomb = run(scenario, 0, tmp_path)
    assert len(bomb.places) > 5
    attempts = {name: calm.plane.job(id_).attempt for name, id_ in calm.ids.items()}
    for at in range(1, len(bomb.places) + 1):
        drive, _ = run(scenario, at, tmp_path)
        assert drive.deaths == 1
        assert {name: drive.plane.job(id_).attempt for name, id_ in drive.ids.items()} == attempts, at
