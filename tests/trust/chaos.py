"""Real chaos: `python -m tests.trust.chaos [--minutes 1] [--jobs 50] [--seed N]`, one JSON line.

A real server, its launcher and its supervisors run above `faults.c`; real jobs run below them. Several
clients submit, stop, pause, resume and look, each call sent once, and write down what they were answered, and
when.
Meanwhile the server, supervisors and workers are killed and stopped for a while, the disk is full, or slow,
and the clock jumps. Then it is calm, and everything must come to its end. What the clients saw, and what the
jobs' processes wrote down of their starts, is judged by `histories`; what is left, by the kernel (`witness`).
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from grus.api.wire_types.job import JobOut
from grus.engines.local import processes
from grus.model.errors import Conflict, GrusError, NotFound, StoreFailed, Unreachable
from grus.model.jobs import TERMINAL, Phase
from grus.sdk.client import Client
from grus.sdk.state_paths import running
from grus.sdk.transport import Transport
from tests.live import witness
from tests.live.pool import LivePool
from tests.server.process import eventually
from tests.trust import histories, preloading
from tests.trust.chaos_faults import Faults
from tests.trust.histories import Call, History, Start

POOL = "2x4x1GB"
CLIENTS = 4
HOUR = 3600
EARLY = 0.1
"""Chance of a fault while the server is still starting."""
TIMEOUT = 6.0
"""Seconds that a client waits for an answer."""
CALM = 240.0
"""Seconds in which everything must have ended when the faults are over."""
FAULTS = (
    *("kill the server", "stop the server", "kill a supervisor", "stop a supervisor", "kill a worker"),
    *("stop a worker", "fill the disk", "slow the disk", "shift the clock"),
)
SERVER = """
import sys
sys.executable = {python!r}
from grus.cli.main import main
main()
"""
"""The launcher starts with an environment of its own: what starts it lays it above the faults."""
BEGIN = (
    'read up _ < /proc/uptime; w=${{GRUS_CONTROL%/*}}; echo "${{w##*/}} $GRUS_ATTEMPT $up" >> {ran}/{name}; '
)


@dataclass(slots=True)
class Figures:
    minutes: float
    jobs: int = 0
    """Submits that were confirmed."""
    kills: int = 0
    stops: int = 0
    full_disks: int = 0
    slow_disks: int = 0
    jumps: int = 0
    calls: int = 0
    unanswered: int = 0
    """Calls without an answer, or told that the store has failed: whether they took effect is not known."""
    lost: int = 0
    twice: int = 0
    contradictions: int = 0
    left_processes: int = 0
    held_gpus: float = 0.0
    drift: int = 0
    not_ended: int = 0
    server_errors: int = 0
    """Answers of the server that are nobody's fault but its own; 503 while the disk is full is not."""
    server_deaths: int = 0
    """Times that a server that was up ended by itself."""
    failed_starts: int = 0
    """Servers that ended before they were up, each of them with the disk full."""
    starts: int = 0
    seconds: float = 0.0
    seed: int = 0

    @property
    def wrong(self) -> float:
        judged = self.lost + self.twice + self.contradictions + self.left_processes + self.held_gpus
        return judged + self.drift + self.not_ended + self.server_errors + self.server_deaths


def uptime() -> float:
    """The clock of all histories: no fault changes it, and a shell can read it."""
    return float(Path("/proc/uptime").read_text().split()[0])


class ChaosPool(LivePool):
    """A server above the faults; it can be started whatever its clock and disk are like."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, POOL)
        self.home.mkdir()
        self.faults = Faults(self.home, folder / "faults")
        self._python = folder / "python"
        layer = " ".join(f"{key}={value}" for key, value in self.faults.env.items())
        self._python.write_text(f'#!/bin/sh\n{layer} exec {sys.executable} "$@"\n')
        self._python.chmod(0o700)
        self.said = folder / "said"  # beside the home: not on the disk that is full

    def launch(self) -> subprocess.Popen[str]:
        self.places.config_file.write_text(self._config + self.more)
        command = [sys.executable, "-c", SERVER.format(python=str(self._python)), "up", "--foreground"]
        with self.said.open("a") as said:
            return subprocess.Popen(
                command, env={**self.env, **self.faults.env}, stdout=said, stderr=said, text=True
            )


# --------------------------------------------------------------------------------------------- the people


@dataclass(slots=True)
class Notes:
    """What the clients write down; shared by their threads."""

    most: int
    histories: dict[str, History] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    specs: dict[str, dict[str, object]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)
    errors: list[str] = field(default_factory=list)
    calls: int = 0
    unanswered: int = 0


class Person:
    """One client: each call is sent once, and written down with what came of it."""

    def __init__(self, pool: LivePool, notes: Notes, ran: Path, seed: int) -> None:
        self._pool = pool
        self._notes = notes
        self._ran = ran
        self._chance = random.Random(seed)
        self._client: Client | None = None

    def live(self) -> None:
        while not self._notes.stop.is_set():
            self._act()
            # Who finds no server asks again a little later.
            self._notes.stop.wait(self._chance.uniform(0.02, 0.25) if self._client else 0.5)
        self.let_go()

    def _act(self) -> None:
        name = self._new() if self._chance.random() < 0.6 else None
        if name is None:
            with self._notes.lock:
                names = list(self._notes.ids)
            if not names:
                return
            name = self._chance.choice(names[-15:])
        what = self._chance.choice(("read", "read", "submit", "stop", "pause", "pause", "resume", "resume"))
        if name not in self._notes.ids:
            what = "submit"
        if what == "stop" and self._chance.random() < 0.5:
            what = "read"
        self.call(what, name)

    def _new(self) -> str | None:
        """A name to submit under: a new one, or one whose submit had no answer yet."""
        with self._notes.lock:
            waiting = [name for name in self._notes.histories if name not in self._notes.ids]
            if waiting:
                return self._chance.choice(waiting)
            if len(self._notes.histories) >= self._notes.most:
                return None
            name = f"job-{len(self._notes.histories)}"
            spec, fails = a_job(name, self._ran, self._chance)
            self._notes.histories[name] = History(name, disturbed=fails)
            self._notes.specs[name] = spec
            return name

    def call(self, what: str, name: str) -> None:
        """Nothing of what goes wrong is raised: it belongs to the history."""
        begun = uptime()
        call = Call(what, begun)
        try:
            job = self._send(what, name)
            call = seen(what, begun, job)
            with self._notes.lock:
                self._notes.ids.setdefault(name, job.id)
        except (Unreachable, StoreFailed):
            self.let_go()
        except Conflict:
            call = Call(what, begun, uptime(), histories.REFUSED)
        except NotFound:
            call = Call(what, begun, uptime(), histories.NOT_THERE)
        except (GrusError, OSError, ValueError) as error:
            self.let_go()
            with self._notes.lock:
                self._notes.errors.append(f"{what} {name}: {type(error).__name__}: {error}")
        with self._notes.lock:
            self._notes.calls += 1
            self._notes.unanswered += call.answered is None
            self._notes.histories[name].calls.append(call)

    def _send(self, what: str, name: str) -> JobOut:
        if self._client is None:
            transport = Transport(None, None, timeout=TIMEOUT, patience=0.0, env=self._pool.env)
            self._client = Client(transport=transport)
        if what == "submit":
            return self._client.submit(self._notes.specs[name], key=name).job
        asked: dict[str, Callable[[str], JobOut]] = {
            "read": self._client.job,
            "stop": self._client.stop,
            "pause": self._client.pause,
            "resume": self._client.resume,
        }
        return asked[what](self._notes.ids[name])

    def let_go(self) -> None:
        """The next server may listen elsewhere."""
        if self._client is not None:
            self._client.close()
            self._client = None


def seen(what: str, begun: float, job: JobOut) -> Call:
    return Call(what, begun, uptime(), job.desired, job.phase, job.attempt, job.version, job.id)


def a_job(name: str, ran: Path, chance: random.Random) -> tuple[dict[str, object], bool]:
    """A short one, a gang, an elastic one, or one that fails once or always; and whether it may fail."""
    begin, seconds = BEGIN.format(ran=ran, name=name), round(chance.uniform(0.2, 6.0), 1)
    kind = chance.choice(("short", "short", "gang", "elastic", "retried", "fails"))
    run = {
        "retried": f'{begin} sleep {seconds / 3:.1f}; [ "$GRUS_ATTEMPT" -gt 1 ]',
        "fails": f"{begin} exit 3",
    }.get(kind, f"{begin} sleep {seconds}")
    job: dict[str, object] = {
        "name": name,
        "run": run,
        "resources": {"gpu": {"gang": 2, "elastic": "1..3"}.get(kind, 1)},
        "launch": "per-gpu",
        "checkpoint": {"grace": "1s"},
        "resize": "live",
        "retries": 0 if kind == "fails" else 3,
        "workdir": "/",
    }
    return job, kind in ("fails", "retried")


# --------------------------------------------------------------------------------------------- the faults


class Chaos:
    """One fault after the other; what was stopped goes on again."""

    def __init__(self, pool: ChaosPool, notes: Notes, chance: random.Random, figures: Figures) -> None:
        self._pool = pool
        self._notes = notes
        self._chance = chance
        self._figures = figures
        self._deck: list[str] = []
        self._later: list[tuple[float, Callable[[], object]]] = []
        self._was_up = 0
        """Process id of the last server that was up."""
        self._filled = False
        """Whether the disk was full at any time since this server was started."""

    def rage(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        told = time.monotonic()
        while time.monotonic() < deadline:
            if self._up() or self._chance.random() < EARLY:
                self._do(self._next())
            pause = time.monotonic() + self._chance.uniform(0.3, 1.5)
            while time.monotonic() < pause:
                self._undo(time.monotonic())
                self._see_to_the_server()
                time.sleep(0.05)  # a turn of the loop, not for anything to happen
            if time.monotonic() - told > 5:
                told = time.monotonic()
                _say(f"{deadline - told:.0f} s left, {self._notes.calls} calls, {len(self._notes.ids)} jobs")
        self._undo(float("inf"))
        self._pool.faults.clear()

    def _next(self) -> str:
        """Each of them before any comes again."""
        if not self._deck:
            self._deck = self._chance.sample(FAULTS, len(FAULTS))
        return self._deck.pop()

    def _do(self, fault: str) -> None:
        faults, length = self._pool.faults, self._chance.uniform(0.5, 3.0)
        match fault:
            case "kill the server":
                self._pool.kill()
                self._figures.kills += 1
                self._launch()
            case "stop the server":
                assert self._pool.process is not None
                self._freeze(self._pool.process.pid, length)
            case "fill the disk":
                faults.set(full=1)
                self._filled = True
                self._figures.full_disks += 1
                self._after(length, lambda: faults.set(full=0))
            case "slow the disk":
                faults.set(slow=self._chance.choice((50, 300, 1000)))
                self._figures.slow_disks += 1
                self._after(length, lambda: faults.set(slow=0))
            case "shift the clock":
                faults.set(shift=self._chance.choice((0, self._chance.randint(-HOUR, HOUR))))
                self._figures.jumps += 1
            case _:
                self._hurt(fault, length)

    def _hurt(self, fault: str, length: float) -> None:
        seen = witness.workers(self._pool.home)
        if not seen:
            return
        one = self._chance.choice(seen)
        pid = one.pid
        if fault.endswith("supervisor"):
            worker = processes.read(one.pid)
            if worker is None or worker.parent <= 1:
                return
            pid = worker.parent
        if fault.startswith("stop"):
            self._freeze(pid, length)
            return
        for name, id_ in list(self._notes.ids.items()):
            if id_ == one.job and fault.endswith("worker"):
                self._notes.histories[name].disturbed = True
        if one.job not in self._notes.ids.values() and fault.endswith("worker"):
            return  # its submit was not answered yet: whom to excuse is not known
        _signal(pid, signal.SIGKILL)
        self._figures.kills += 1

    def _freeze(self, pid: int, length: float) -> None:
        _signal(pid, signal.SIGSTOP)
        self._figures.stops += 1
        self._after(length, lambda: _signal(pid, signal.SIGCONT))

    def _after(self, seconds: float, what: Callable[[], object]) -> None:
        self._later.append((time.monotonic() + seconds, what))

    def _undo(self, now: float) -> None:
        for due in [one for one in self._later if one[0] <= now]:
            self._later.remove(due)
            due[1]()

    def _up(self) -> bool:
        found = running(self._pool.places)
        return found is not None and self._pool.process is not None and found.pid == self._pool.process.pid

    def _see_to_the_server(self) -> None:
        """Whoever runs a server starts it again when it has ended; on a full disk that may fail."""
        process = self._pool.process
        assert process is not None
        if process.poll() is None:
            self._was_up = process.pid if self._up() else self._was_up
            return
        if self._was_up != process.pid and self._filled:
            self._figures.failed_starts += 1
        else:
            self._figures.server_deaths += 1
        _say(f"the server ended with {process.poll()}: {self._pool.said.read_text()[-500:]}")
        self._launch()

    def _launch(self) -> None:
        self._filled = self._pool.faults.full
        self._pool.process = self._pool.launch()


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


# ----------------------------------------------------------------------------------------------- the whole


def run(folder: Path, minutes: float, jobs: int, seed: int) -> Figures:
    begun = time.monotonic()
    figures = Figures(minutes, seed=seed)
    folder = folder.resolve()
    ran = folder / "ran"
    ran.mkdir()
    notes = Notes(jobs)
    pool = ChaosPool(folder)
    with pool:
        people = [Person(pool, notes, ran, seed * 100 + number) for number in range(CLIENTS)]
        threads = [threading.Thread(target=person.live) for person in people]
        for thread in threads:
            thread.start()
        chaos = Chaos(pool, notes, random.Random(seed), figures)
        try:
            eventually(lambda: 2 * len(notes.ids) >= jobs, "half of the jobs are there", CALM)
            chaos.rage(minutes * 60)
        finally:
            notes.stop.set()
            pool.faults.clear()
            for thread in threads:
                thread.join()
        _calm(pool, notes, ran, seed, figures)
        left = pool.home
    figures.left_processes = len(witness.related(left))
    pool.faults.close()
    _judge(notes, ran, figures)
    figures.seconds = round(time.monotonic() - begun, 1)
    return figures


def _calm(pool: ChaosPool, notes: Notes, ran: Path, seed: int, figures: Figures) -> None:
    """No faults any more: what waits for somebody is resumed, and everything ends."""
    assert pool.process is not None
    if pool.process.poll() is not None:
        pool.process = pool.launch()
    process = pool.process

    def up() -> bool:
        assert process.poll() is None, pool.said.read_text()[-2000:]
        found = running(pool.places)
        return found is not None and found.pid == process.pid and pool._answers()

    eventually(up, f"the server answers: {pool.said.read_text()[-2000:]}", CALM)
    person = Person(pool, notes, ran, seed)
    for name in [name for name in notes.histories if name not in notes.ids]:
        person.call("submit", name)
    for name in list(notes.ids):
        person.call("resume", name)
    person.let_go()
    live = [phase.value for phase in Phase if phase not in TERMINAL]
    with pool.client() as client:
        deadline = time.monotonic() + CALM
        while (left := client.jobs(phases=live, limit=1000)) and time.monotonic() < deadline:
            assert process.poll() is None, pool.said.read_text()[-2000:]
            time.sleep(0.2)
        for job in left:
            _say(f"not ended: {job.name} {job.phase} {job.desired}: {job.reason} {client.workers(job.id)}")
        figures.not_ended = len(left)
        for job in client.jobs(limit=1000):
            notes.histories[job.name].on_record.append(seen("read", uptime(), job))
        status = client.status()
        figures.held_gpus = float(status.pool.held) if not left else 0.0
        figures.drift = sum("differed" in warning for warning in status.warnings)


def _judge(notes: Notes, ran: Path, figures: Figures) -> None:
    for name, history in notes.histories.items():
        file = ran / name
        for line in file.read_text().splitlines() if file.exists() else []:
            worker, attempt, at = line.split()
            history.starts.append(Start(worker, int(attempt), float(at)))
        for kind, found in (
            ("lost", histories.lost(history)),
            ("twice", histories.twice(history)),
            ("contradictions", histories.contradictions(history)),
        ):
            setattr(figures, kind, getattr(figures, kind) + len(found))
            for text in found:
                _say(f"{kind}: {text}")
        figures.starts += len(history.starts)
    figures.jobs = len(notes.ids)
    figures.calls, figures.unanswered = notes.calls, notes.unanswered
    figures.server_errors = len(notes.errors)
    for text, number in Counter(notes.errors).items():
        _say(f"server error, {number} times: {text}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=1.0)
    options.add_argument("--jobs", type=int, default=50)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    if preloading.compiler() is None:
        print(json.dumps({"skipped": preloading.CANNOT}))
        return 0
    with tempfile.TemporaryDirectory(prefix="grus-chaos-", ignore_cleanup_errors=True) as temporary:
        figures = run(Path(temporary), given.minutes, given.jobs, given.seed)
    print(json.dumps(asdict(figures)))
    return 1 if figures.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
