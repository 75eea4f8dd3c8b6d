"""The two systems that are compared, behind one interface: the same payloads, slots and clock points.

Both write the moment of a process's start with the same bash script; both have 2 nodes of 4 pretended GPUs,
and of 64 when they are killed. Each side starts from an empty state and is gone afterwards.
"""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Protocol

from benchmarks.grus_server import GrusServer, submit_many
from benchmarks.machine import wait_for
from benchmarks.slurm_cluster import SlurmCluster

CLIENTS = 8
GPUS = 8
STAMP = "#!/bin/bash\necho $EPOCHREALTIME >> $1\n"
HOLD = "#!/bin/bash\necho $EPOCHREALTIME >> $1\nexec sleep 600\n"
TRUE = "#!/bin/sh\n/bin/true\n"


class Side(Protocol):
    """One system, up and running on an empty pool of 8 GPUs."""

    def submit_to_start(self) -> float:
        """Seconds from asking to the start of the process, on an idle pool."""
        ...

    def reclaim(self, gap: float) -> float:
        """Seconds from the owner's request to its start, when others have held all GPUs for `gap` seconds."""
        ...

    def job_rate(self, count: int) -> float:
        """Trivial one-GPU jobs per second, from the first submit to the last end."""
        ...

    def submit_rate(self, count: int) -> float:
        """Acknowledged submits per second by 8 clients, of jobs that cannot start."""
        ...

    def beside(self, count: int) -> dict[str, float]:
        """Figures without a counterpart that are printed beside."""
        ...


def started(stamp: Path, patience: float = 120.0) -> float:
    """When the process that writes this stamp started."""
    wait_for(lambda: stamp.exists() and stamp.stat().st_size > 0, patience, str(stamp), every=0.002)
    return float(stamp.read_text().split()[0])


def script(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    file.chmod(0o755)
    return file


# ------------------------------------------------------------------------------------------------- Grus


class GrusSide:
    """Grus through its API, with kept connections."""

    def __init__(self) -> None:
        self.server = GrusServer(queues={"owner": 4, "borrower": 4})
        self._numbers = iter(range(10**9))

    def __enter__(self) -> "GrusSide":
        self.server.__enter__()
        (self.server.root / "out").mkdir()
        self._stamp = script(self.server.root, "stamp.sh", STAMP)
        self._hold = script(self.server.root, "hold.sh", HOLD)
        self._true = script(self.server.root, "true.sh", TRUE)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()

    def _new_stamp(self) -> Path:
        return self.server.root / "out" / str(next(self._numbers))

    def _job(self, program: Path, *arguments: str, queue: str = "borrower") -> dict[str, object]:
        run = [str(program), *arguments]
        return {"name": program.stem, "queue": queue, "run": run, "resources": {"gpu": 1}, "workdir": "/"}

    def submit_to_start(self) -> float:
        stamp = self._new_stamp()
        began = time.time()
        self.server.submit(self._job(self._stamp, str(stamp)))
        took = started(stamp) - began
        self.server.wait_until_done(30)
        return took

    def reclaim(self, gap: float) -> float:
        stamps = [self._new_stamp() for _ in range(GPUS)]
        for stamp in stamps:
            self.server.submit(self._job(self._hold, str(stamp)))
        for stamp in stamps:
            started(stamp)
        time.sleep(gap)
        mine = self._new_stamp()
        began = time.time()
        self.server.submit(self._job(self._stamp, str(mine), queue="owner"))
        took = started(mine) - began
        self.server.stop_jobs()
        return took

    def job_rate(self, count: int) -> float:
        job = self._job(self._true)
        load = submit_many(self.server, job, clients=CLIENTS, each=count // CLIENTS)
        return load.accepted / (self.server.wait_until_done(600) - load.began)

    def submit_rate(self, count: int) -> float:
        self._fill()
        rate = submit_many(
            self.server, self._job(self._true), clients=CLIENTS, each=count // CLIENTS
        ).per_second
        self.server.stop_jobs()
        return rate

    def beside(self, count: int) -> dict[str, float]:
        """Submits through the command line, each a new interpreter."""
        self._fill()
        file = self.server.root / "job.yaml"
        file.write_text(f"name: true\nqueue: borrower\nrun: [{self._true}]\nresources: {{gpu: 1}}\n")
        grus = Path(sys.executable).with_name("grus")
        each = max(1, count // 20 // CLIENTS)
        environment = {"GRUS_HOME": str(self.server.root), "PATH": "/usr/bin:/bin"}
        rate = loop_in_shells(f"{grus} submit {file}", each, environment)
        self.server.stop_jobs()
        return {"cli_submits_per_s": rate}

    def _fill(self) -> None:
        stamps = [self._new_stamp() for _ in range(GPUS)]
        for stamp in stamps:
            self.server.submit(self._job(self._hold, str(stamp)))
        for stamp in stamps:
            started(stamp)


# ------------------------------------------------------------------------------------------------ Slurm


class SlurmSide:
    """Slurm through sbatch, as its users do; with its default ticks or with the shortest it honours."""

    def __init__(self, *, tuned: bool) -> None:
        self.cluster = SlurmCluster(tuned=tuned)
        self._numbers = iter(range(10**9))

    def __enter__(self) -> "SlurmSide":
        self.cluster.__enter__()
        self._stamp = script(self.cluster.root, "stamp.sh", STAMP)
        self._hold = script(self.cluster.root, "hold.sh", HOLD)
        self._true = script(self.cluster.root, "true.sh", TRUE)
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.stop()

    def _new_stamp(self) -> Path:
        return self.cluster.root / "out" / str(next(self._numbers))

    def _submit(self, program: Path, stamp: Path, *options: str) -> None:
        if self.cluster.sbatch(program, *options, arguments=(str(stamp),)) is None:
            raise RuntimeError("sbatch was refused")

    def submit_to_start(self) -> float:
        stamp = self._new_stamp()
        began = time.time()
        self._submit(self._stamp, stamp)
        took = started(stamp) - began
        wait_for(lambda: not self.cluster.queued(), 60, "Slurm's queue to be empty")
        return took

    def reclaim(self, gap: float) -> float:
        stamps = [self._new_stamp() for _ in range(GPUS)]
        for stamp in stamps:
            self._submit(self._hold, stamp, "-p", "low", "--requeue")
        for stamp in stamps:
            started(stamp)
        time.sleep(gap)
        mine = self._new_stamp()
        began = time.time()
        self._submit(self._stamp, mine, "-p", "high")
        took = started(mine) - began
        self.cluster.cancel_all()
        return took

    def job_rate(self, count: int) -> float:
        before, began = self.cluster.completed_jobs(), time.time()
        loop_in_shells(self._sbatch(), count // CLIENTS, self.cluster.environment)
        return self._rate_until_completed(before, count, began)

    def _rate_until_completed(self, before: int, count: int, began: float) -> float:
        wait_for(lambda: self.cluster.completed_jobs() - before >= count, 900, "Slurm's jobs to end")
        return count / (time.time() - began)

    def submit_rate(self, count: int) -> float:
        rate = loop_in_shells(self._sbatch("--hold"), count // CLIENTS, self.cluster.environment)
        if len(self.cluster.queued()) < count:
            raise RuntimeError("Slurm has fewer jobs than were submitted")
        self.cluster.cancel_all()
        return rate

    def beside(self, count: int) -> dict[str, float]:
        """The job array: one call, many jobs."""
        began = time.time()
        self.cluster.sbatch(self._true, "--hold", f"--array=1-{count}")
        rate = count / (time.time() - began)
        self.cluster.cancel_all()
        before, began = self.cluster.completed_jobs(), time.time()
        self.cluster.sbatch(self._true, f"--array=1-{count // 8}")
        return {
            "array_submits_per_s": rate,
            "array_jobs_per_s": self._rate_until_completed(before, count // 8, began),
        }

    def _sbatch(self, *options: str) -> str:
        words = ["sbatch", "--parsable", "-o", "/dev/null", "--gres=gpu:1", "-n1", *options, str(self._true)]
        return " ".join(words)


def loop_in_shells(command: str, each: int, environment: dict[str, str]) -> float:
    """Run `command` `each` times in 8 looping shells at once; calls per second, all of which succeeded.

    Shells and not threads of this interpreter, whose own start of a process would slow the fast ones down.
    """
    loop = f"i=0; while [ $i -lt {each} ]; do {command} >/dev/null || exit 1; i=$((i+1)); done"
    began = time.time()
    shells = [subprocess.Popen(["/bin/sh", "-c", loop], env=environment) for _ in range(CLIENTS)]
    codes = [shell.wait() for shell in shells]
    if any(codes):
        raise RuntimeError(f"a submit failed: {command}")
    return CLIENTS * each / (time.time() - began)


# ------------------------------------------------------------------------------------------------ crash


def crash_grus(seconds: float) -> tuple[int, int, int]:
    """kill -9 of the server under load: acknowledged before it, lost of these, run twice of these."""
    with GrusServer("2x64x16GB") as server:
        folder = server.root / "out"
        folder.mkdir()
        program = script(server.root, "token.sh", STAMP)

        def submit(token: str) -> None:
            server.submit(
                {
                    "name": token,
                    "run": [str(program), str(folder / token)],
                    "resources": {"gpu": 1},
                    "workdir": "/",
                }
            )

        acknowledged = load_until_killed(submit, server.kill, seconds)
        server.start()
        server.wait_until_done(120)
        return verdict(acknowledged, folder, known=set())


def crash_slurm(seconds: float) -> tuple[int, int, int]:
    """The same with slurmctld, tuned. What is still in its queue at the end is not counted as lost."""
    with SlurmCluster(tuned=True, gpus_per_node=64) as cluster:
        folder = cluster.root / "out"
        program = script(cluster.root, "token.sh", STAMP)
        ids: dict[str, str] = {}

        def submit(token: str) -> None:
            id = cluster.sbatch(program, arguments=(str(folder / token),))
            if id is None:
                raise RuntimeError("not accepted")
            ids[token] = id

        acknowledged = load_until_killed(submit, cluster.kill_controller, seconds)
        cluster.start_controller()
        deadline = time.monotonic() + 60
        while cluster.queued() and time.monotonic() < deadline:
            time.sleep(0.2)
        left = set(cluster.queued())
        return verdict(acknowledged, folder, known={token for token, id in ids.items() if id in left})


def load_until_killed(submit: Callable[[str], None], kill: Callable[[], None], seconds: float) -> list[str]:
    """Submit from 4 clients, kill after `seconds`, and return the tokens acknowledged before the kill."""
    acknowledged: list[tuple[str, float]] = []
    killing, over = threading.Event(), threading.Event()

    def client(name: int) -> None:
        number = 0
        while not over.is_set():
            token = f"t{name}-{number}"
            number += 1
            try:
                submit(token)
            except (OSError, RuntimeError, HTTPException) as error:
                if not killing.is_set():
                    print(f"refused: {error}", file=sys.stderr)
                return
            acknowledged.append((token, time.time()))
            over.wait(random.uniform(0, 0.1))

    clients = [threading.Thread(target=client, args=(name,)) for name in range(4)]
    for thread in clients:
        thread.start()
    time.sleep(seconds)
    killing.set()
    killed_at = time.time()
    kill()
    over.set()
    for thread in clients:
        thread.join()
    if not acknowledged:
        raise RuntimeError("nothing was accepted, so nothing could be lost")
    return [token for token, at in acknowledged if at <= killed_at]


def verdict(acknowledged: list[str], folder: Path, known: set[str]) -> tuple[int, int, int]:
    runs = {file.name: len(file.read_text().split()) for file in folder.iterdir()}
    lost = [token for token in acknowledged if token not in runs and token not in known]
    twice = [token for token in acknowledged if runs.get(token, 0) > 1]
    return len(acknowledged), len(lost), len(twice)
