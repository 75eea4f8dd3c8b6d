"""kill -9 of the server under submit load: `python -m tests.chaos.server_kills 300`, one JSON line.

Clients submit all the time. Every job appends a line to a file of its own when it starts, so that lost jobs
and jobs that ran twice are counted from files, not from what Grus says. The server is killed at random
moments, also while it starts, and started again at once. Long jobs live through all of that: each restart
must find them running under the same pid, and the exit code of one that ended while no server lived must be
known to the next.
"""

import json
import math
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from grus.api.wire_types.job import JobOut
from grus.model.jobs import TERMINAL, ExitCause, Phase
from grus.sdk.client import Client
from grus.sdk.state_paths import running
from grus.sdk.transport import Transport
from tests.live import witness
from tests.live.gates import Gate
from tests.live.pool import LivePool
from tests.server.process import eventually

POOL = "2x8x1GB"
SUBMITTERS = 4
MOST_AHEAD = 100
"""Acknowledged jobs that have not run yet, at most: the load is steady, the end near."""
LONG_JOBS = 6
GANG_EVERY = 8
"""One in so many jobs has two workers, which are started one after the other."""
REPEAT_EVERY = 5
"""One in so many posts is sent once more, as after a lost answer."""
EARLY = 0.25
"""Part of the kills that hit a server which is still starting."""
LET_GO = 0.2
"""Part of the kills after which a long job ends before the next server starts."""
LONGEST_LIFE = 0.8
"""Seconds that a server lives at most after it has answered, or after its start in an early kill."""
PATIENCE = 300.0


@dataclass(frozen=True, slots=True)
class Figures:
    kills: int
    acknowledged: int
    lost: int
    """Acknowledged jobs of which a worker never ran, or that are not on record as succeeded."""
    twice: int
    """Workers that ran more than once, and submissions of which more than one job was made."""
    reattached: int
    """Long jobs found running under the same pid, over all restarts, and ends found with the right code."""
    not_reattached: int
    reattach_p99_s: float
    """From the start of a server's process to its word that all long jobs run."""
    seconds: float


@dataclass(slots=True)
class Acknowledged:
    """What the submitters were promised; shared by their threads."""

    workers: dict[str, int] = field(default_factory=dict)
    """Number of workers by token."""
    different: set[str] = field(default_factory=set)
    """Tokens of repeated posts that were answered with another job than the first."""
    ahead: int = 0
    """Acknowledged and not run yet, as counted at the last kill, and all acknowledged since."""
    stop: threading.Event = field(default_factory=threading.Event)
    broken: list[BaseException] = field(default_factory=list)


def submit_until_told(client: Client, ran: Path, name: str, shared: Acknowledged) -> None:
    """One submitter: its connection is kept, and each job has a key of its own."""
    number = 0
    while not shared.stop.is_set():
        if shared.ahead >= MOST_AHEAD:
            shared.stop.wait(0.02)
            continue
        number += 1
        token = f"{name}-{number}"
        workers = 2 if number % GANG_EVERY == 0 else 1
        job = client.submit(_short_job(token, workers, ran), key=token).job
        shared.workers[token] = workers
        shared.ahead += 1
        if number % REPEAT_EVERY == 0:
            again = client.submit(_short_job(token, workers, ran), key=token).job
            if again.id != job.id:
                shared.different.add(token)


def _short_job(token: str, workers: int, ran: Path) -> dict[str, object]:
    return {
        "name": token,
        "run": f'echo "$GRUS_ATTEMPT" >> {ran}/{token}.$RANK',  # >> opens with O_APPEND
        "resources": {"gpu": workers},
        "launch": "per-gpu",
        "workdir": "/",
    }


def quick_client(pool: LivePool) -> Client:
    """A client that asks often while there is no server, for one does not live long here."""
    transport = Transport(
        None, None, timeout=60.0, patience=PATIENCE, env=pool.env, pause=lambda s: time.sleep(min(s, 0.05))
    )
    client = Client(transport=transport)
    client.status()  # who never met the server is told at once that there is none
    return client


class LongJobs:
    """Jobs that outlive servers. Each ends with a code of its own when its gate opens."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder = folder
        self._chance = chance
        self._gates: dict[str, tuple[Gate, int]] = {}
        self._pids: dict[str, int] = {}
        self._ended: dict[str, int] = {}
        self._number = 0
        self.reattached = 0
        self.wrong: list[str] = []

    def replenish(self, client: Client) -> None:
        """As many as there should be, all running."""
        while len(self._gates) < LONG_JOBS:
            self._number += 1
            gate, code = Gate(self._folder / f"long-{self._number}"), self._chance.randrange(1, 100)
            run = f"cat {gate.path}; exit {code}"
            job = client.submit({"name": gate.path.name, "run": run, "workdir": "/"}).job
            self._gates[job.id] = gate, code
        for id_ in self._gates.keys() - self._pids.keys():
            pid = _running_pid(client, id_, PATIENCE)
            assert pid is not None, client.job(id_)
            self._pids[id_] = pid

    def let_one_go(self) -> None:
        """The oldest ends, whether a server lives or not."""
        if not self._gates:
            return
        id_ = next(iter(self._gates))
        gate, code = self._gates.pop(id_)
        del self._pids[id_]
        self._ended[id_] = code
        gate.open()

    def let_all_go(self) -> None:
        while self._gates:
            self.let_one_go()

    def check(self, client: Client) -> None:
        """Wait until this server knows them all; note those that it does not know as they are."""
        for id_, pid in self._pids.items():
            found, job = _running_pid(client, id_, 30), client.job(id_)
            self._count((found, job.attempt) == (pid, 1), f"{id_} runs as {found}, not as {pid}: {job}")

    def check_ended(self, client: Client) -> None:
        """Those that were let go are on record with the code that they ended with."""
        for id_, code in self._ended.items():
            job = client.handle(id_).wait(PATIENCE)
            known = (job.phase, job.attempt, job.exit and job.exit.cause, job.exit and job.exit.code)
            self._count(
                known == ("failed", 1, ExitCause.CODE.value, code),
                f"{id_} ended as {known}, not with code {code}",
            )
        self._ended = {}

    def _count(self, right: bool, what: str) -> None:
        if right:
            self.reattached += 1
        else:
            self.wrong.append(what)


def _running_pid(client: Client, job: str, seconds: float) -> int | None:
    """Of the one worker, as soon as the server says that the job is running; None if it never does."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if client.job(job).phase == "running":
            pids = [worker.pid for worker in client.workers(job) if worker.state == "running"]
            if len(pids) == 1:
                return pids[0]
        time.sleep(0.02)
    return None


def run(folder: Path, kills: int, seed: int = 1) -> Figures:
    """Kill and start again that many times; then wait for every acknowledged job, and count."""
    begun = time.monotonic()
    ran = folder / "ran"
    ran.mkdir()
    shared = Acknowledged()
    with LivePool(folder, POOL) as pool, ExitStack() as stack:
        client, *clients = [stack.enter_context(quick_client(pool)) for _ in range(1 + SUBMITTERS)]
        long = LongJobs(folder, random.Random(seed))
        long.replenish(client)
        threads = [
            threading.Thread(target=_submitter, args=(own, ran, f"s{number}", shared))
            for number, own in enumerate(clients)
        ]
        for thread in threads:
            thread.start()
        try:
            times = _kill_often(pool, client, long, shared, ran, kills, random.Random(seed))
        finally:
            shared.stop.set()
            for thread in threads:
                thread.join()
        assert not shared.broken, shared.broken
        long.let_all_go()
        long.check_ended(client)
        jobs = _all_ended(client)
    assert not witness.related(pool.home)
    for text in long.wrong:
        _say(text)
    lost, twice = _count(shared, ran, jobs)
    return Figures(
        kills=kills,
        acknowledged=len(shared.workers),
        lost=lost,
        twice=twice,
        reattached=long.reattached,
        not_reattached=len(long.wrong),
        reattach_p99_s=round(_p99(times), 3),
        seconds=round(time.monotonic() - begun, 1),
    )


def _submitter(client: Client, ran: Path, name: str, shared: Acknowledged) -> None:
    try:
        submit_until_told(client, ran, name, shared)
    except BaseException as error:  # noqa: BLE001 - the edge of a thread; the main one raises it
        shared.broken.append(error)


def _kill_often(
    pool: LivePool,
    client: Client,
    long: LongJobs,
    shared: Acknowledged,
    ran: Path,
    kills: int,
    chance: random.Random,
) -> list[float]:
    """Kill and start again; the seconds that each server which was not killed early needed to know all
    long jobs."""
    times: list[float] = []
    started = time.monotonic()
    for number in range(1, kills + 1):
        if number > 1 and chance.random() >= EARLY:
            _until_up(pool)
            long.check(client)
            times.append(time.monotonic() - started)
            long.check_ended(client)
            long.replenish(client)
        time.sleep(chance.uniform(0, LONGEST_LIFE))  # not for anything to happen: any moment will do
        pool.kill()
        if chance.random() < LET_GO:
            long.let_one_go()
        started = time.monotonic()
        pool.process = pool.launch()
        shared.ahead = max(0, sum(shared.workers.copy().values()) - len(list(ran.iterdir())))
        assert not shared.broken, shared.broken
        if number % 10 == 0:
            _say(f"{number} kills, {len(shared.workers)} jobs acknowledged, {shared.ahead} not run yet")
    _until_up(pool)
    long.check(client)
    return [*times, time.monotonic() - started]


def _until_up(pool: LivePool) -> None:
    """The server that was started last has told its address."""
    process = pool.process
    assert process is not None

    def up() -> bool:
        assert process.poll() is None, pool.said.read_text()[-2000:]
        found = running(pool.places)
        return found is not None and found.pid == process.pid

    eventually(up, "the server is up")


def _all_ended(client: Client) -> list[JobOut]:
    """Every job on record, once all have ended."""
    left = [phase.value for phase in Phase if phase not in TERMINAL]
    eventually(lambda: not client.jobs(phases=left, limit=1), "all jobs have ended", PATIENCE)
    found: list[JobOut] = []
    while page := client.jobs(limit=1000, after=found[-1].id if found else None):
        found += page
    return found


def _count(shared: Acknowledged, ran: Path, jobs: list[JobOut]) -> tuple[int, int]:
    """How many were lost and how many came twice, from the files that the jobs wrote and from the record."""
    made = Counter(job.name for job in jobs)
    succeeded = {job.name for job in jobs if job.phase == "succeeded"}
    lost = twice = 0
    for token, workers in shared.workers.items():
        files = [ran / f"{token}.{rank}" for rank in range(workers)]
        starts = [file.read_text().split() if file.exists() else [] for file in files]
        if not all(starts) or token not in succeeded:
            lost += 1
            _say(f"lost: {token}, started in attempts {starts}")
        if made[token] > 1 or token in shared.different or any(len(attempts) > 1 for attempts in starts):
            twice += 1
            _say(f"twice: {token}, {made[token]} jobs, started in attempts {starts}")
    return lost, twice


def _p99(times: list[float]) -> float:
    return sorted(times)[math.ceil(0.99 * len(times)) - 1]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
        _say(f"seed {seed}")
        figures = run(Path(temporary), int(sys.argv[1]) if len(sys.argv) > 1 else 20, seed)
    print(json.dumps(asdict(figures)))
    sys.exit(1 if figures.lost or figures.twice or figures.not_reattached else 0)
