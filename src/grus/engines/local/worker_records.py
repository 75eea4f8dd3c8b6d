"""Engine's record of one worker in memory, and its conversion from and to the worker's folder.

Files are authoritative; a record is a copy that a new engine can make again.
"""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from grus.engines.local import orphans, processes, reports, state_files
from grus.model.identifiers import DeviceId, JobId, WorkerId
from grus.model.interfaces import WorkerState, WorkerStatus
from grus.model.jobs import Exit, ExitCause


@dataclass(slots=True)
class WorkerRecord:
    """One worker. Changed only under the engine's lock."""

    id: WorkerId
    job: JobId
    attempt: int
    folder: str
    state: WorkerState = WorkerState.STARTING
    pid: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    exit: Exit | None = None
    devices: tuple[DeviceId, ...] = ()
    share: int = 0
    gpu_memory: int = 0
    """Cap on each device, in bytes; 0 for none."""
    token: str = ""
    readable: bool = False
    """True if users other than the engine's must be able to read the control file."""
    request: bytes = b""
    """spec.json, until the launcher has answered."""
    secrets: bytes = b""
    """Values of its secrets by variable (JSON), as long as the request; never in a file."""
    sent_to: object = None
    """The launcher that has the request."""
    placed: bool = False
    """True if the folder is in place and is known to have an owner."""
    supervisor: int = 0
    handle: int | None = None
    """pidfd of the supervisor."""
    deadline: float | None = None
    """Monotonic time at which the requested stop turns into a kill."""
    control: str | None = None
    said: str = ""
    """Its report's last line when it last rang, or was loaded."""
    measured: tuple[float, float] | None = field(default=None)
    """(time, CPU seconds) when usage was last measured."""

    def status(self) -> WorkerStatus:
        return WorkerStatus(
            id=self.id,
            job=self.job,
            attempt=self.attempt,
            state=self.state,
            pid=self.pid,
            started_at=self.started_at,
            ended_at=self.ended_at,
            exit=self.exit,
            said=self.said,
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """Process that owns a worker's folder; pid 0: an engine has given the worker up."""

    pid: int
    start: int
    boot: str


def load(folder: Path) -> WorkerRecord:
    """The record of a worker that some engine started; without a readable spec, from its name."""
    spec = _read_json(str(folder), state_files.SPEC)
    job, _, rest = folder.name.partition(".")
    attempt = rest.partition(".")[0]
    record = WorkerRecord(
        id=WorkerId(folder.name),
        job=JobId(str(spec.get("job", job))),
        attempt=int(str(spec.get("attempt", attempt if attempt.isdigit() else 0))),
        folder=str(folder),
    )
    if spec:
        record.devices = tuple(DeviceId(str(one)) for one in _list(spec["devices"]))
        record.share = int(str(spec["share"]))
        record.gpu_memory = int(str(spec["gpu_memory"]))
        record.token = str(spec["token"])
        record.readable = spec["identity"] is not None
    refresh(record)
    stop = _read_json(record.folder, state_files.STOP)
    record.deadline = float(str(stop["deadline"])) if stop else None
    return record


def living(state: Path) -> list[WorkerId]:
    """Return the workers with a living supervisor,
    according to their folders; needs no engine, only reads.
    """
    boot = processes.boot_id()
    found = sorted((state / state_files.WORKERS).iterdir()) if (state / state_files.WORKERS).is_dir() else []
    workers = [load(folder) for folder in found if state_files.safe_name(folder.name)]
    claims = [(worker.id, read_claim(worker)) for worker in workers if read_exit(worker) is None]
    return [id_ for id_, one in claims if one and one.boot == boot and orphans.is_alive(one.pid, one.start)]


def refresh(record: WorkerRecord) -> bool:
    """Bring the record up to its folder's `started` and `report`; whether there is news."""
    before = record.state, record.said
    started = _read_json(record.folder, state_files.STARTED)
    if started and record.state is WorkerState.STARTING:
        record.pid = int(str(started["pid"]))
        record.started_at = float(str(started["at"]))
        record.state = WorkerState.RUNNING
    record.said = reports.last_line(record.folder)
    return (record.state, record.said) != before


def read_exit(record: WorkerRecord) -> tuple[Exit, float] | None:
    """Return the exit and its time, if they were recorded."""
    found = _read_json(record.folder, state_files.EXIT)
    if not found:
        return None
    code = found["code"]
    return (
        Exit(ExitCause[str(found["cause"])], None if code is None else int(str(code)), str(found["text"])),
        float(str(found["at"])),
    )


def read_claim(record: WorkerRecord) -> Claim | None:
    found = _read_json(record.folder, state_files.CLAIM)
    if not found:
        return None
    return Claim(int(str(found["pid"])), int(str(found["start"])), str(found["boot"]))


def give_up(record: WorkerRecord) -> bool:
    """Claim the folder with no owner, so that no supervisor can start it; False if one has it already."""
    return state_files.create_file(
        record.folder, state_files.CLAIM, json.dumps({"pid": 0, "start": 0, "boot": "", "at": 0}).encode()
    )


def write_exit(record: WorkerRecord, cause: ExitCause, text: str, at: float) -> None:
    """Write the engine's verdict where no supervisor is left to write one."""
    content = json.dumps({"cause": cause.name, "code": None, "text": text, "at": at}).encode()
    state_files.replace_file(record.folder, state_files.EXIT, content, durable=True)


def write_stop(record: WorkerRecord, cause: ExitCause | None = None, text: str = "") -> None:
    """The request that the supervisor reads when it gets SIGTERM; with a cause it is a kill at once."""
    deadline = record.deadline if record.deadline is not None else time.monotonic()
    stop = {"deadline": deadline, "cause": cause.name if cause else "", "text": text}
    state_files.replace_file(record.folder, state_files.STOP, json.dumps(stop).encode())


def write_control(record: WorkerRecord, text: str) -> None:
    mode = 0o644 if record.readable else 0o600
    state_files.replace_file(record.folder, state_files.CONTROL, text.encode(), mode=mode)


def _read_json(folder: str, name: str) -> dict[str, object]:
    """Empty where there is no such file, or where a loss of power has left half of it."""
    content = state_files.read_file(folder, name)
    if not content:
        return {}
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
