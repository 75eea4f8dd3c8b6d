"""What happens to jobs in a pool, told as stories: each can be killed at any point and must end as it says.

A scenario drives a whole control plane (`tests.trust.dying`) and returns the phase in which each of its jobs
must be in the end. Those about stages and sweeps are in `tests.trust.crash_work`.
"""

import json

from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.artifacts import Artifact, Input, Output
from grus.model.errors import NotFound
from grus.model.identifiers import JobId, NodeId
from grus.model.interfaces import QUEUES
from grus.model.jobs import Exit, ExitCause, Idle, PauseCause, Phase
from grus.model.queues import Queue
from grus.model.resources import Range
from tests.controlplane.plane import ADMIN, ANN
from tests.scheduler.builders import GB, a_queue, a_role, lose
from tests.store.builders import cordoned
from tests.trust.dying import Drive

POOL_QUEUES: tuple[Queue, ...] = (a_queue("A", quota=1), a_queue("B", quota=2))
"""Of the pool in which all of them happen."""
LOOK = 5.0
"""Seconds in which the loop looks at its nodes, and so at tags."""


def ordinary(drive: Drive) -> dict[str, Phase]:
    """A gang runs to its end, and on the way another control plane takes over in good order."""
    drive.submit("a", gpus=2)
    drive.do(lambda: drive.plane.restart())
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
    drive.do(lambda: drive.plane.services.actions.scale(ANN, drive.ids["e"], Range(1, 1)))
    drive.after(2)
    drive.do(lambda: drive.plane.services.actions.stop(ANN, drive.ids["e"]))
    drive.after(2)
    return {"e": Phase.STOPPED, "r": Phase.SUCCEEDED}


def paused(drive: Drive) -> dict[str, Phase]:
    """A person pauses, resumes and stops; a stage waits for another and fails with it."""
    drive.submit("p", gpus=2)
    drive.submit("q", gpus=1, after=[drive.ids["p"]])
    drive.do(lambda: drive.plane.services.actions.pause(ANN, drive.ids["p"]))
    drive.do(lambda: drive.plane.services.actions.resume(ANN, drive.ids["p"]))
    drive.do(lambda: drive.plane.services.actions.stop(ANN, drive.ids["p"]))
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
    drive.do(lambda: drive.plane.services.actions.scale(ANN, drive.ids["t"], Range(1, 3)))
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
        assert drive.plane.job(drive.ids[name]).artefacts == (Artifact("data", "ab" * 32, 7),)
    return {"a": Phase.SUCCEEDED, "b": Phase.SUCCEEDED}


def _unless_ended(drive: Drive, job: JobId) -> None:
    """A pause; asked for again after a crash, the job may have ended by it."""
    if not drive.plane.job(job).terminal:
        drive.plane.services.actions.pause(ANN, job)


def submitted(drive: Drive) -> dict[str, Phase]:
    """Code is copied aside and a job submitted; the client asks again until it is told yes, and once more."""
    code = drive.folder / "code"
    code.mkdir(exist_ok=True)
    (code / "train.py").write_text("print(1)\n")
    for _ in range(2):
        drive.submit("s", snapshot=True, workdir=str(code))
        first = drive.ids["s"]
    assert drive.ids["s"] == first
    assert len(drive.plane.store.jobs()) == 1
    drive.finish("s")
    assert len(list(drive.plane.settings.code.iterdir())) == 1, "a copy of its code, and no half of one"
    return {"s": Phase.SUCCEEDED}


def spread(drive: Drive) -> dict[str, Phase]:
    """A gang over two nodes, of which a process cannot start; the next attempt comes up bit by bit."""
    engine = drive.plane.engine
    engine.up_at_once = False
    engine.cannot_start = {".1.worker.3"}
    drive.submit("g", gpus=4, retries=1)
    drive.after(8)
    engine.cannot_start.clear()  # the same set in every engine that comes after
    drive.after(2)
    drive.do(lambda: drive.plane.engine.up("worker.0"))
    drive.do(lambda: drive.plane.engine.up())
    job = drive.job("g")
    assert (job.phase, job.attempt, len({seat.node for seat in job.seats})) == (Phase.RUNNING, 2, 2), job
    drive.finish("g")
    return {"g": Phase.SUCCEEDED}


def served(drive: Drive) -> dict[str, Phase]:
    """A served model gets a second replica; the first dies and is replaced while the other answers on."""
    drive.submit("m", type="serve", gpus="1..2", queue="B")
    drive.do(lambda: drive.plane.services.actions.scale(ANN, drive.ids["m"], Range(2, 2)))
    steady = drive.plane.engine.find("worker.1.")
    drive.do(lambda: drive.plane.engine.kill("worker.0."))
    drive.after(1.1)
    alive = drive.plane.engine.alive()
    assert steady in alive
    assert (len(alive), drive.job("m").attempt) == (2, 1)
    drive.do(lambda: drive.plane.services.actions.stop(ANN, drive.ids["m"]))
    return {"m": Phase.STOPPED}


def idled(drive: Drive) -> dict[str, Phase]:
    """Nobody works in a session: it is warned and paused; somebody resumes it, and stops it later."""
    drive.submit("d", type="dev", idle=Idle(below=0.1, seconds=20.0, action="pause"))
    drive.plane.tags = {
        drive.ids["d"]: Tag(kind=WorkloadKind.IDLE, at=drive.plane.now, expires=1e9, utilisation=0.0)
    }
    for _ in range(20):  # who takes over begins to count anew
        if drive.job("d").phase is Phase.PAUSED:
            break
        drive.after(LOOK)
    assert drive.job("d").paused_by is PauseCause.IDLE
    assert "idle" in drive.plane.kinds(drive.ids["d"]), "nobody is paused without a word before"
    drive.plane.tags = {}
    drive.do(lambda: drive.plane.services.actions.resume(ANN, drive.ids["d"]))
    assert drive.job("d").phase is Phase.RUNNING
    drive.do(lambda: drive.plane.services.actions.stop(ANN, drive.ids["d"]))
    return {"d": Phase.STOPPED}


def requeued(drive: Drive) -> dict[str, Phase]:
    """Queues come, change and go, and a node is closed and opened, while jobs wait for just that."""
    drive.do(lambda: drive.plane.services.queues.put(ADMIN, a_queue("C", quota=1, limit=1)))
    drive.submit("a", queue="C")
    drive.submit("b", queue="C")
    assert drive.job("b").phase is Phase.PENDING
    drive.do(lambda: drive.plane.services.queues.put(ADMIN, a_queue("C", quota=1, limit=2)))
    assert drive.job("b").phase is Phase.RUNNING
    drive.do(lambda: drive.plane.services.pool.cordon(ADMIN, NodeId("n1"), True))
    drive.submit("c", queue="B")
    assert drive.job("c").phase is Phase.PENDING
    drive.do(lambda: drive.plane.services.pool.cordon(ADMIN, NodeId("n1"), False))
    for name in ("a", "b", "c"):
        drive.finish(name)
    drive.do(lambda: _deleted(drive, "C"))
    assert [queue.name for queue in drive.plane.store.find(QUEUES)] == ["A", "B"]
    assert cordoned(drive.plane.store) == frozenset()
    return dict.fromkeys("abc", Phase.SUCCEEDED)


def _deleted(drive: Drive, name: str) -> None:
    """Asked for again after a crash, it may be gone by the first request."""
    try:
        drive.plane.services.queues.delete(ADMIN, a_queue(name).name)
    except NotFound:
        assert drive.deaths


def node_lost(drive: Drive) -> dict[str, Phase]:
    """A GPU breaks and then its whole node is gone with its workers: both times the job goes on elsewhere."""
    whole = drive.plane.engine.pool
    drive.submit("x", gpus=2)
    (node,) = {seat.node for seat in drive.job("x").seats}
    drive.plane.engine.pool = lose(whole, drive.job("x").seats[0].devices[0])
    drive.after(LOOK)
    drive.after(LOOK)
    (other,) = {seat.node for seat in drive.job("x").seats}
    assert other != node
    drive.plane.engine.pool = tuple(one for one in whole if one.id == node)
    for worker in drive.plane.engine.alive():
        drive.plane.engine.lose(worker)
    drive.after(LOOK)
    drive.after(LOOK)
    assert {seat.node for seat in drive.job("x").seats} == {node}
    drive.finish("x")
    return {"x": Phase.SUCCEEDED}
