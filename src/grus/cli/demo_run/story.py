"""The demo's story: its jobs, its scenes, and the expected outcome of each job.

A scene begins with an action and lasts until its condition holds; nothing waits for a fixed time.
Observations add up (`DemoSession`), so that a condition that held only for a moment is not missed. Each
expectation is checked against the server's reports: phases, sizes, events and logs.
"""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from grus.cli.render.output import moment
from grus.model.errors import DoesNotFit, GrusError

if TYPE_CHECKING:
    from grus.api.wire_types.job import EventOut, JobOut
    from grus.sdk.client import Client

JOBS = Path(__file__).parent / "demo_jobs"
RESUMED = "resuming after step"
RETRIES = ("retrying", "pending", "failed")
"""Kinds of the event that says why there is another attempt."""
ENOUGH = "enough"
"""The file that asks the elastic run to finish."""


@dataclass(slots=True)
class ObservedJob:
    """Everything observed of one job so far."""

    job: "JobOut"
    sizes: list[float] = field(default_factory=list)
    """GPUs held, each time they changed, while it ran."""
    events: "list[EventOut]" = field(default_factory=list)

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    @property
    def succeeded(self) -> bool:
        return self.job.phase == "succeeded"

    @property
    def course(self) -> str:
        """Its sizes in order."""
        return " → ".join(f"{size:g}" for size in self.sizes)

    @property
    def wait(self) -> str:
        """Return the time from submit to start, as the job records it: mostly the time in which others
        leave.
        """
        begin, start = moment(self.job.submitted_at), moment(self.job.first_started_at)
        return f"{(start - begin).total_seconds() * 1000:,.0f} ms" if begin and start else "never"

    def said(self, kind: str) -> str:
        """Return the text of the last event of that kind."""
        return next((event.text for event in reversed(self.events) if event.kind == kind), "")


class DemoSession:
    """The setting of the demo: the server, a folder, and all observations of the jobs so far."""

    def __init__(self, client: "Client", folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.seen: dict[str, ObservedJob] = {}
        self.refusal = ""
        self._last_event = 0

    def submit(
        self, name: str, queue: str, script: str, *options: str, gpu: int | str, **more: object
    ) -> None:
        """Hand in one of the demo's programs."""
        job = {
            "name": name,
            "queue": queue,
            "run": [sys.executable, "-u", str(JOBS / script), *options],
            "resources": {"gpu": gpu},
            "workdir": str(self.folder),
            "checkpoint": {"path": f"checkpoints/{name}", "grace": "10s"},
            **more,
        }
        self.seen[name] = ObservedJob(self.client.submit(job).job)

    def look(self) -> "list[EventOut]":
        """Ask the server how things are; returns the events that are new."""
        for name, job in ((job.name, job) for job in self.client.jobs(limit=100)):
            if name in self.seen:
                self._note(self.seen[name], job)
        events = self.client.events(after=self._last_event)
        for event in events:
            self._last_event = max(self._last_event, event.seq)
            if (seen := self._of(event.job)) is not None:
                seen.events.append(event)
        return events

    def _note(self, seen: ObservedJob, job: "JobOut") -> None:
        seen.job = job
        if job.phase == "running" and (not seen.sizes or seen.sizes[-1] != job.gpus):
            seen.sizes.append(job.gpus)

    def _of(self, job: str | None) -> ObservedJob | None:
        return next((seen for seen in self.seen.values() if seen.job.id == job), None)

    def name_of(self, job: str | None) -> str:
        """`queue/name` of a job of ours."""
        seen = self._of(job)
        return f"{seen.job.queue}/{seen.job.name}" if seen is not None else ""

    def phase(self, name: str) -> str:
        return str(self.seen[name].job.phase)

    def running(self, *names: str) -> bool:
        return all(self.phase(name) == "running" for name in names)

    def ended(self, *names: str) -> bool:
        return all(self.phase(name) in ("succeeded", "failed", "stopped") for name in names)

    def held(self, name: str) -> float:
        return self.seen[name].job.gpus

    def log(self, name: str) -> str:
        """The newest part of what the job wrote; empty while it has not written anything."""
        try:
            return self.client.log(self.seen[name].job.id, offset=-20_000)[0].decode(errors="replace")
        except GrusError:
            return ""

    def wrote(self, name: str, text: str) -> bool:
        return text in self.log(name)


@dataclass(frozen=True, slots=True)
class DemoStep:
    title: str
    begin: Callable[[DemoSession], str | None]
    """The scene's action; returns a remark to show about it, or None."""
    until: Callable[[DemoSession], bool]
    within: float = 25.0
    """Seconds after which the scene is given up: far more than it needs."""
    after: Callable[[DemoSession], str] | None = None
    """Returns a remark to show when the scene is over."""


def scenes() -> list[DemoStep]:
    return [
        DemoStep("two teams share eight GPUs, four each", _open, _all_run),
        DemoStep(
            "elastic takes the GPUs that nobody uses", _nothing, lambda on: max(on.seen["elastic"].sizes) >= 3
        ),
        DemoStep(
            "a request that no state of the pool can serve is refused", _ask_for_too_much, lambda _: True
        ),
        DemoStep(
            "one more job of vision: elastic gives a GPU back",
            _fragile,
            lambda on: on.wrote("fragile", "step 3/"),
        ),
        DemoStep("its worker is killed with -9", _kill, _is_retried),
        DemoStep("when language is done, elastic grows into its GPUs", _nothing, _language_is_done),
        DemoStep(
            "vision borrows what language leaves idle", _borrow, lambda on: on.wrote("night-run", "step 4/")
        ),
        DemoStep("the owner returns: borrowed GPUs are taken back", _return, _owner_is_served),
        DemoStep("when the owner is done, what was paused goes on", _ask_why, _borrower_goes_on),
        DemoStep("everything runs to its end", _finish, lambda on: on.ended("night-run", "elastic")),
        DemoStep("the session is closed", _close, lambda on: on.ended("notebook")),
    ]


def _nothing(on: DemoSession) -> None:
    """The scene is watched only."""


def _ask_why(on: DemoSession) -> str:
    return f"`grus why night-run` says: {on.client.why(on.seen['night-run'].job.id).sentence}"


def _open(on: DemoSession) -> None:
    on.submit("gang", "language", "gang.py", "--steps", "36", gpu=4, launch="per-gpu")
    on.submit("notebook", "vision", "session.py", gpu=1, type="dev")
    on.submit("elastic", "vision", "elastic.py", gpu="1..4", resize="live")


def _all_run(on: DemoSession) -> bool:
    return on.running("gang", "notebook", "elastic")


def _ask_for_too_much(on: DemoSession) -> str:
    try:
        on.submit("too-much", "vision", "train.py", gpu=16, launch="per-gpu")
    except DoesNotFit as error:
        on.refusal = str(error)
    return f"gpu: 16 is {f'refused: {on.refusal}' if on.refusal else 'accepted'}"


def _fragile(on: DemoSession) -> None:
    on.submit("fragile", "vision", "train.py", "--steps", "20", gpu=1, retries=2)


def _kill(on: DemoSession) -> None:
    """Kill the job's workers, as the kernel does with a process that takes too much memory."""
    for worker in on.client.workers(on.seen["fragile"].job.id):
        if worker.pid is not None and worker.state != "ended":
            os.kill(worker.pid, signal.SIGKILL)


def _is_retried(on: DemoSession) -> bool:
    return on.seen["fragile"].job.attempt == 2 and (on.running("fragile") or on.ended("fragile"))


def _language_is_done(on: DemoSession) -> bool:
    return on.ended("gang", "fragile") and on.held("elastic") == 4


def _borrow(on: DemoSession) -> None:
    on.submit("night-run", "vision", "train.py", "--steps", "36", gpu=3)


def _return(on: DemoSession) -> None:
    on.submit("nightly", "language", "gang.py", "--steps", "24", gpu=4, launch="per-gpu")


def _owner_is_served(on: DemoSession) -> bool:
    return on.phase("night-run") == "paused" and (on.running("nightly") or on.ended("nightly"))


def _borrower_goes_on(on: DemoSession) -> bool:
    return on.ended("nightly") and (on.running("night-run") or on.ended("night-run"))


def _finish(on: DemoSession) -> None:
    (on.folder / "checkpoints" / "elastic" / ENOUGH).touch()


def _close(on: DemoSession) -> None:
    on.client.stop(on.seen["notebook"].job.id)


# ------------------------------------------------------------------------------------------------ verdicts


@dataclass(frozen=True, slots=True)
class DemoResult:
    """One line of the last table."""

    job: str
    expected: str
    happened: str
    why: str
    ok: bool

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def verdicts(on: DemoSession) -> list[DemoResult]:
    """Return the expected and the actual outcome of each job, with the reason that the server gave."""
    judges: dict[str, Callable[[ObservedJob, str], DemoResult]] = {
        "gang": _judge_gang,
        "elastic": _judge_elastic,
        "notebook": _judge_notebook,
        "fragile": _judge_fragile,
        "night-run": _judge_borrower,
        "nightly": _judge_owner,
    }
    found = [
        judge(on.seen[name], on.log(name))
        if name in on.seen
        else DemoResult(name, "to run", "did not", "", False)
        for name, judge in judges.items()
    ]
    refused = "refused" if on.refusal else "accepted"
    return [*found, DemoResult("too-much", "refused at once", refused, on.refusal, bool(on.refusal))]


def _judge_gang(seen: ObservedJob, log: str) -> DemoResult:
    ok = seen.succeeded and set(seen.sizes) == {4} and "sum over all ranks 6" in log
    happened = f"{seen.job.phase}; held {seen.course} GPUs"
    return DemoResult("gang", "all 4 workers start together and finish", happened, seen.said("starting"), ok)


def _judge_elastic(seen: ObservedJob, log: str) -> DemoResult:
    steps = list(zip(seen.sizes, seen.sizes[1:], strict=False))
    moved = any(a < b for a, b in steps) and any(a > b for a, b in steps)
    ok = seen.succeeded and moved and seen.job.attempt == 1 and "unit" in log
    happened = f"{seen.job.phase}; {seen.course} GPUs, restarts: {seen.job.attempt - 1}"
    return DemoResult("elastic", "grows and shrinks without a restart", happened, seen.said("resized"), ok)


def _judge_notebook(seen: ObservedJob, log: str) -> DemoResult:
    pauses = seen.kinds.count("paused") + seen.kinds.count("pausing")
    ok = seen.job.phase == "stopped" and not pauses and seen.job.attempt == 1 and "session ready" in log
    happened = f"{seen.job.phase} by us; paused {pauses}×"
    return DemoResult("notebook", "never taken from its owner", happened, seen.said("starting"), ok)


def _judge_fragile(seen: ObservedJob, log: str) -> DemoResult:
    ok = seen.succeeded and seen.job.attempt == 2 and RESUMED in log
    happened = f"{seen.job.phase} in attempt {seen.job.attempt}{_from_checkpoint(log)}"
    why = next((event.text for event in reversed(seen.events) if event.kind in RETRIES), "")
    return DemoResult("fragile", "killed with -9: tried again from its checkpoint", happened, why, ok)


def _judge_borrower(seen: ObservedJob, log: str) -> DemoResult:
    ok = seen.succeeded and "paused" in seen.kinds and RESUMED in log and seen.job.failures == 0
    happened = f"{seen.job.phase}; paused {seen.kinds.count('paused')}×{_from_checkpoint(log)}"
    why = seen.said("pausing") or seen.said("paused")
    return DemoResult("night-run", "gives back what it borrowed, goes on later", happened, why, ok)


def _judge_owner(seen: ObservedJob, log: str) -> DemoResult:
    ok = seen.succeeded and set(seen.sizes) == {4} and "sum over all ranks 6" in log
    happened = f"{seen.job.phase}; {seen.wait} from submit to start"
    return DemoResult(
        "nightly", "inside its quota: starts though the pool is full", happened, seen.said("starting"), ok
    )


def _from_checkpoint(log: str) -> str:
    line = next((line for line in reversed(log.splitlines()) if RESUMED in line), "")
    return f", {line}" if line else ""
