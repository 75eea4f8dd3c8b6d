"""Make a fixture: `python -m tests.compatibility.make_state tests/fixtures/state-vX.Y --commit COMMIT`.

Writes `state.tar.xz`, `backup.tar.xz` and `made.json`, which says what is in them.

A real server on virtual GPUs runs real processes until each phase, a finished and a live sweep, a finished
and a live workflow, two users and their queues are on record. Then the server stops and its state is packed
as it is; live jobs stay on record as running. Run it with the code whose state is to be kept.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grus.api.wire_types.job import JobOut
from grus.model.jobs import Phase
from grus.sdk.client import Client, Handle
from grus.sdk.transport import Transport
from grus.store.migrations import STEPS
from tests.compatibility.archive import pack
from tests.live.pool import LivePool
from tests.server.process import eventually

POOL = "2x8x1GB"
RETENTION = """
[retention]
events = "36500d"
jobs = "36500d"
results = "36500d"

[artefacts]
kept = "36500d"
"""
"""So that a fixture never grows too old to be opened."""
ADMIN_SECRET = "grus_" + "TEST-ONLY-".ljust(43, "0")
LEFT_OUT = ("server.json", "lock", "said", "server.log")
GATE = 'while [ ! -e "$OPEN" ]; do sleep 0.2; done'
"""Live jobs run until a file of this name is there."""
REPORT = """printf '{"at": %s, "figures": {"loss": 0.%s, "step": %s, "total": 4}}\\n' "$(date +%s)" """
TRIAL = REPORT + '"$((9 - GRUS_TRIAL))" 4 >> "$GRUS_REPORT"'
FIELDS = ("name", "phase", "paused_by", "user", "type", "queue")
"""Of each job, in `made.json`."""
PATIENCE = 300.0


class Maker:
    """Puts one pool into the state."""

    def __init__(self, pool: LivePool, work: Path) -> None:
        self.pool, self.work = pool, work
        self.grus = pool.grus
        self.tokens = {"admin": ADMIN_SECRET}

    def job(self, name: str, run: str | list[str], gpu: float | str = 1, **more: object) -> dict[str, object]:
        env = {"OPEN": str(self.work / "open")}
        common = {"name": name, "run": run, "queue": "vision", "workdir": str(self.work), "env": env}
        return {**common, "resources": {"gpu": gpu}, **more}

    def submit(self, name: str, run: str, gpu: float | str = 1, **more: object) -> Handle:
        return self.grus.submit(self.job(name, run, gpu, **more), key=f"key-of-{name}")

    # --------------------------------------------------------------------------------------- people

    def people(self) -> None:
        for name, queue in (("ada", "vision"), ("eve", "speech")):
            self.grus.put_user(name, {"role": "member", "unix_user": "nobody"})
            told = self.grus.new_token({"user": name, "label": "test only"})
            self.tokens[name] = str(told.secret)
            quota = {"vision": 8, "speech": 4}[queue]
            self.grus.put_queue(queue, {"parent": "lab", "quota": quota, "members": [name], "weight": 2})

    def of(self, user: str) -> Client:
        transport = Transport(None, self.tokens[user], timeout=60.0, patience=30.0, env=self.pool.env)
        return Client(transport=transport)

    # ----------------------------------------------------------------------------------------- jobs

    def ended(self) -> None:
        report = REPORT + '31 4 >> "$GRUS_REPORT"; echo done'
        done = self.submit("succeeds", report, params={"lr": 0.1, "width": 32})
        failed = self.submit("fails", "echo broken >&2; exit 3", retries=1)
        stopped = self.submit("stops", GATE)
        ends(failed, Phase.FAILED)
        ends(done, Phase.SUCCEEDED)
        reaches(stopped, Phase.RUNNING)
        stopped.stop()
        ends(stopped, Phase.STOPPED)
        ends(self.submit("follows-failure", "true", after=[failed.id], when="always"), Phase.SUCCEEDED)

    def users_jobs(self) -> None:
        """Paused after a first attempt: the second one ends at once."""
        once = '[ "$GRUS_RESUME" = 1 ] || sleep 3600'
        for user, queue in (("ada", "vision"), ("eve", "speech")):
            with self.of(user) as client:
                job = self.job(f"rests-{user}", once, 1, queue=queue, workdir="/", env={})
                paused = client.submit({**job, "checkpoint": {"grace": "1s"}})
                reaches(paused, Phase.RUNNING)
                paused.pause()
                reaches(paused, Phase.PAUSED)
                quick = client.submit(self.job(f"quick-{user}", "true", 0, queue=queue, workdir="/", env={}))
                ends(quick, Phase.SUCCEEDED)

    def stages(self, name: str, train: str) -> list[dict[str, object]]:
        prepare, model = f"{name}-prepare", f"{name}-train"
        training = f'{train}; cp "$GRUS_INPUT_DATA/rows" "$GRUS_OUTPUT_MODEL/weights"'
        test = f'grep -q {name} "$GRUS_INPUT_MODEL/weights"'
        return [
            self.job(prepare, f'echo {name} > "$GRUS_OUTPUT_DATA/rows"', 0, outputs=["data"]),
            self.job(model, training, inputs={"data": f"{prepare}.data"}, outputs=["model"]),
            self.job(f"{name}-evaluate", test, 0, inputs={"model": f"{model}.model"}),
        ]

    def workflows(self) -> None:
        for handle in self.grus.submit_stages(self.stages("done", "true"), key="workflow"):
            ends(handle, Phase.SUCCEEDED)
        served = self.job("live-serve", "", 0, type="serve", inputs={"model": "live-train.model"})
        served = {name: value for name, value in served.items() if name != "run"}
        live = self.grus.submit_stages(
            [*self.stages("live", GATE), {**served, "serve": {"replicas": "1..2"}}]
        )
        reaches(live[1], Phase.RUNNING)

    def sweep(self, name: str, run: str, trials: int) -> Handle:
        search = {
            "metric": "loss",
            "space": {"x": {"uniform": [0, 1]}, "width": [16, 32]},
            "sampler": "random",
            "stopping": {"rule": "none"},
            "budget": {"trials": trials},
            "parallel": 2,
        }
        return self.submit(name, run, 0.5, sweep=search)

    def sweeps(self) -> None:
        ends(self.sweep("search-done", TRIAL, 3), Phase.SUCCEEDED)
        live = self.sweep("search-live", f"{TRIAL}; {GATE}", 4)
        reaches(live, Phase.RUNNING)
        eventually(lambda: self._trials(live) == 2, "two trials run", PATIENCE)

    def _trials(self, handle: Handle) -> int:
        return [one.phase for one in self.grus.sweep(handle.id).trials].count("running")

    def live(self) -> None:
        save = 'echo 7 > "$GRUS_CHECKPOINT"; printf \'{"at": %s, "figures": {"step": 7}, "saved_at": %s}\\n\''
        save += ' "$(date +%s)" "$(date +%s)" >> "$GRUS_REPORT"; ' + GATE
        elastic = self.submit(
            "elastic", save, "1..2", launch="per-gpu", checkpoint={"path": "saved", "grace": "1s"}
        )
        session = self.submit("session", GATE, 1, type="dev", idle={"below": "5%", "for": "30m"})
        running = self.submit("runs", GATE)
        pausing = self.submit("pausing", f"trap '' TERM; {GATE}", checkpoint={"grace": "1h"})
        for handle in (elastic, session, running, pausing):
            reaches(handle, Phase.RUNNING)
        eventually(lambda: elastic.refresh().saved_at is not None, "the checkpoint is heard of", PATIENCE)
        pausing.pause()
        reaches(pausing, Phase.PAUSING)
        starting = self.submit("starting", "true", setup=GATE)
        reaches(starting, Phase.STARTING)
        self.submit("comes-after", "true", after=[running.id], max_runtime="8h")
        self.submit("waits", "true", 16, launch="per-gpu")

    def preempted(self) -> None:
        borrower = self.submit("borrower", "sleep 3600", 8, queue="default", checkpoint={"grace": "1s"})
        reaches(borrower, Phase.RUNNING)
        owner = self.submit("owner", GATE, 4, queue="speech")
        reaches(owner, Phase.RUNNING)
        reaches(borrower, Phase.PAUSED)

    def all(self) -> None:
        self.people()
        self.ended()
        self.users_jobs()
        self.workflows()
        self.sweeps()
        self.live()
        self.preempted()
        self.grus.cordon(self.grus.nodes()[-1].id)
        eventually(self._learned, "results and profiles are kept", PATIENCE)

    def _learned(self) -> bool:
        ended = [job for job in self.grus.jobs(limit=1000) if job.phase in ("succeeded", "failed", "stopped")]
        return len(self.grus.runs(limit=1000)) >= len(ended) and bool(self.grus.profiles())


def reaches(handle: Handle, phase: Phase) -> None:
    eventually(lambda: handle.refresh().phase == phase, f"{handle.job.name} is {phase}", PATIENCE)


def ends(handle: Handle, phase: Phase) -> None:
    found = handle.wait(PATIENCE)
    assert found.phase == phase, found


def described(maker: Maker, jobs: list[JobOut], commit: str) -> dict[str, object]:
    return {
        "commit": commit,
        "schema": len(STEPS),
        "made_at": time.strftime("%Y-%m-%d", time.gmtime()),
        "pool": POOL,
        "test_only_tokens": maker.tokens,
        "queues": sorted(queue.name for queue in maker.grus.queues()),
        "users": sorted(user.name for user in maker.grus.users()),
        "cordoned": sorted(node.id for node in maker.grus.nodes() if node.cordoned),
        "runs": len(maker.grus.runs(limit=1000)),
        "profiles": len(maker.grus.profiles()),
        "jobs": {
            job.id: {name: getattr(job, name) for name in FIELDS}
            for job in sorted(jobs, key=lambda one: one.submitted_at)
        },
    }


@contextmanager
def opened_at_last(gate: Path) -> Iterator[None]:
    """So that no job of the pool waits any more."""
    try:
        yield
    finally:
        gate.touch()


def make(folder: Path, target: Path, commit: str) -> None:
    work = folder / "work"
    work.mkdir()
    work.chmod(0o755)
    (folder / "home").mkdir()
    token = folder / "home" / "token"
    token.write_text(ADMIN_SECRET + "\n")
    token.chmod(0o600)
    pool = LivePool(folder, POOL, lab={"quota": 12})
    pool.more = RETENTION
    with pool, opened_at_last(work / "open"):
        maker = Maker(pool, work)
        maker.all()
        jobs = maker.grus.jobs(limit=1000)
        told = described(maker, jobs, commit)
        assert {job.phase for job in jobs} == {str(phase) for phase in Phase}
        pool.stop()
        command = [sys.executable, "-m", "grus.cli.main", "backup", str(folder / "backup"), "--artefacts"]
        subprocess.run(command, env=pool.env, check=True, capture_output=True)
        target.mkdir(parents=True, exist_ok=True)
        pack(folder, target / "state.tar.xz", leave_out=(*LEFT_OUT, "backup"))
        pack(folder, target / "backup.tar.xz", leave_out=("home", "work"))
        (target / "made.json").write_text(json.dumps(told, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path, help="where the fixtures go")
    parser.add_argument("--commit", required=True, help="of the code that this is")
    options = parser.parse_args()
    os.environ["PATH"] = "/usr/local/bin:/usr/bin:/bin"
    os.environ.pop("VIRTUAL_ENV", None)
    with tempfile.TemporaryDirectory(prefix="grus-fixture-") as temporary:
        folder = Path(temporary).resolve()
        folder.chmod(0o755)
        os.environ["HOME"] = str(folder / "work")
        make(folder, options.target, options.commit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
