"""What is done while the power is on: `python -m tests.trust.power_work KIND FOLDER SEED SIZE`, above
`journal.c`.

Each kind does real work of Grus in the folder and says in a file `said` in it, line by line, what it is about
to do and what was confirmed to it. The lines go through the same journal as the work, so that for every
moment it is known what had been promised before it. In the end the process just goes: nothing is closed.
"""

import hashlib
import json
import os
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from grus.model.interfaces import RESULTS, Event, NewJob, WorkerSpec, WorkerState, WorkerStatus
from grus.model.jobs import Job, Phase
from grus.store import codec
from grus.store.durable_files import make_folder
from tests.store.builders import a_job, a_result, done

SAID = "said"
THREADS = 4
DATABASE = "state/grus.db"
COURSES = (
    (),
    (Phase.STARTING, Phase.RUNNING, Phase.SUCCEEDED),
    (Phase.STARTING, Phase.PENDING, Phase.STARTING, Phase.RUNNING, Phase.FAILED),
    (Phase.STARTING, Phase.RUNNING, Phase.PAUSING, Phase.PAUSED),
    (Phase.STOPPED,),
)
"""Phases that jobs go through after pending."""


class Said:
    """Each line is one write, hence one entry of the journal."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / SAID
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def __call__(self, **what: object) -> None:
        os.write(self._file, json.dumps(what).encode() + b"\n")


def digest(job: Job) -> str:
    return hashlib.sha256(codec.JOB.encode(job).encode()).hexdigest()[:16]


def event_of(job: Job) -> Event:
    """The event that belongs to this version of a job, and to no other."""
    return Event(at=1000.0 + job.version, kind=job.phase.value, text=f"version {job.version}", job=job.id)


# ---------------------------------------------------------------------------------------------- the store


def store(folder: Path, seed: int, size: int, synchronous: str = "FULL") -> None:
    """Several threads write `size` jobs, each through its phases."""
    from grus.store.sqlite import SqliteStore

    said = Said(folder)
    kept = SqliteStore(folder / DATABASE, lasting=synchronous != "OFF")
    if synchronous == "NORMAL":
        kept._connection.execute("PRAGMA synchronous = NORMAL")
    epoch = kept.take_over()
    said(epoch=epoch)

    def coming(job: Job) -> Job:
        next_ = replace(job, version=job.version + 1)
        said(will=job.id, version=next_.version, digest=digest(next_))
        return next_

    def created(jobs: list[Job]) -> Job:
        """The last of jobs that are stored together, or the only one."""
        new = [NewJob(job, event_of(coming(job)), f"key of {job.id}") for job in jobs]
        if len(new) > 1:
            said(will_together=[job.id for job in jobs])
            stored = done(kept.create_all(new))
        else:
            stored = [done(kept.create(new[0].job, new[0].event, key=new[0].key))]
        for job, one in zip(stored, new, strict=True):
            said(done=job.id, version=job.version, key=one.key)
        return stored[-1]

    def changed(job: Job) -> Job:
        stored = done(kept.replace(job, event_of(coming(job)), epoch))
        said(done=job.id, version=stored.version)
        return stored

    def write(thread: int) -> None:
        chance = random.Random(f"{seed} {thread}")

        def new(name: str, number: int) -> Job:
            padding = "x" * chance.choice((10, 100, 1000, 9000))  # some bodies need pages of their own
            job = a_job(name, submitted_at=float(number))
            return replace(job, version=0, spec=replace(job.spec, env=(("PADDING", padding),)))

        for number in range(size // THREADS):
            names = [f"j{seed}-{thread}-{number}", *(f"j{seed}-{thread}-{number}-{n}" for n in range(3))]
            job = created([new(name, number) for name in names[: chance.choice((1, 1, 2, 4))]])
            for phase in chance.choice(COURSES):
                job = changed(replace(job, phase=phase))
            if job.phase is Phase.SUCCEEDED:
                done(kept.put(RESULTS, a_result(job.id)))
                said(result=job.id)

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(write, range(THREADS)))  # what one of them raises is raised here


def store_off(folder: Path, seed: int, size: int) -> None:
    """The control experiment: SQLite is told not to sync."""
    store(folder, seed, size, "OFF")


def store_normal(folder: Path, seed: int, size: int) -> None:
    """Another: SQLite syncs at checkpoints of its log only."""
    store(folder, seed, size, "NORMAL")


# ----------------------------------------------------------------------------------------- checkpoints


def checkpoints(folder: Path, seed: int, size: int) -> None:
    """A run saves `size` checkpoints, one after the other, going on where it can."""
    from grus.elastic.training_state.checkpoints import Checkpoints
    from tests.elastic.checkpoint_kills import state_of

    said = Said(folder)
    kept = Checkpoints(folder / "checkpoints", on_saved=lambda step: said(saved=step))
    kept.check()
    loaded = kept.load()
    begun = loaded[0] if loaded else 0
    for step in range(begun + 1, begun + 1 + size):
        kept.save(step, state_of(step), wait=True)
    kept.wait()


# ------------------------------------------------------------------------------------------- artefacts


def a_tree(folder: Path, seed: int) -> Path:
    """Files to keep: they follow from the seed alone, and some are those of other seeds."""
    top = folder / f"tree-{seed}"
    for number in range(4):
        chance = random.Random(seed // 2 * 10 + number if number < 2 else seed * 1000 + number)
        path = top / f"part-{number % 2}" / f"file-{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(chance.choice((10, 5000, 300_000))))
    return top


def vault(folder: Path, seed: int, size: int) -> None:
    """`size` artefacts are kept."""
    import tempfile

    from grus.artifacts.artifact_store import ArtifactStore
    from grus.artifacts.artifact_upload import keep

    said = Said(folder)
    make_folder(folder / "vault")  # as the server does
    kept = ArtifactStore(folder / "vault")
    kept.make()
    with tempfile.TemporaryDirectory() as elsewhere:
        for number in range(seed * size, seed * size + size):
            manifest = keep(kept, a_tree(Path(elsewhere), number))
            said(kept=manifest.digest, tree=number)


# ------------------------------------------------------------------------------------- submitted code


def code(folder: Path, seed: int, size: int) -> None:
    """`size` folders of code are copied, as at submits."""
    import tempfile

    from grus.controlplane.admission import code_snapshot

    said = Said(folder)
    with tempfile.TemporaryDirectory() as elsewhere:
        for number in range(seed * size, seed * size + size):
            tree = a_tree(Path(elsewhere), number)
            _, names = code_snapshot.fingerprint(tree, 1 << 30)
            code_snapshot.copy(tree, names, folder / "state" / "code" / tree.name)
            said(copied=number)


# ---------------------------------------------------------------------------------------- a first start


def first_start(folder: Path, seed: int, size: int) -> None:
    """A server's first start: its administrator's token, and the key of its sessions."""
    from grus.server.http.session_cookies import key_in
    from grus.server.runtime.first_start import ensure_admin
    from grus.store.sqlite import SqliteStore

    said = Said(folder)
    kept = SqliteStore(folder / DATABASE)
    secret = ensure_admin(kept, folder / "state" / "token", time.time())
    if secret is not None:
        said(secret=secret)
    said(key=key_in(folder / "state" / "session.key").hex())


# ------------------------------------------------------------------------------------------- the engine


def a_worker(name: str, said: Path, code: int) -> WorkerSpec:
    """It says that it ran, which goes through the journal too, and ends with this code."""
    from grus.model.identifiers import JobId, NodeId, WorkerId

    layer = ("LD_PRELOAD", "GRUS_TRUST_FOLDER", "GRUS_TRUST_JOURNAL")
    line = json.dumps({"ran": name})
    return WorkerSpec(
        id=WorkerId(name),
        job=JobId(name.partition(".")[0]),
        attempt=1,
        node=NodeId("node-0"),
        argv=("/bin/sh", "-c", f"echo '{line}' >> {said}; exit {code}"),
        env=tuple((key, os.environ[key]) for key in layer if key in os.environ),
        workdir="/",
    )


def engine(folder: Path, seed: int, size: int) -> None:
    """`size` workers run to their ends, some at a time."""
    from grus.engines.local.engine import LocalEngine
    from grus.telemetry.virtual_gpus import VirtualSource

    # The launcher has an environment of its own: it is laid above the journal by what starts it.
    if "LD_PRELOAD" in os.environ:
        sys.executable = str(_python_above_the_layer(Path(os.environ["GRUS_TRUST_JOURNAL"])))
    said = Said(folder)
    make_folder(folder / "state")  # as the server does
    pool = LocalEngine(folder / "state" / "engine", VirtualSource("1x4x1GB"))
    pool.open(seed + 1)
    left = threading.Semaphore(0)

    def heard(status: WorkerStatus) -> None:
        if status.state is WorkerState.ENDED and status.exit is not None:
            said(ended=status.id, code=status.exit.code)
            left.release()

    pool.subscribe(heard)
    chance = random.Random(seed)
    for number in range(size):
        pool.start(a_worker(f"j{seed}x{number}.1.0", said.path, chance.randrange(100)))
        if number >= THREADS:
            assert left.acquire(timeout=300)
    for _ in range(min(size, THREADS)):
        assert left.acquire(timeout=300)
    pool.close()


def _python_above_the_layer(journal: Path) -> Path:
    layer = " ".join(f"{key}={os.environ[key]}" for key in os.environ if key.startswith("GRUS_TRUST_"))
    script = journal.with_name("python")
    script.write_text(
        f'#!/bin/sh\n{layer} LD_PRELOAD={os.environ["LD_PRELOAD"]} exec {sys.executable} "$@"\n'
    )
    script.chmod(0o700)
    return script


WORK = {
    work.__name__: work
    for work in (store, store_off, store_normal, checkpoints, vault, code, first_start, engine)
}

if __name__ == "__main__":
    WORK[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    sys.stdout.flush()
    os._exit(0)
