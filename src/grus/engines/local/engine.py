"""Local engine: workers are processes of this machine, each under a supervisor of its own.

See `docs/engine.md`. There is one object per server process. It holds copies of the workers' folders; closing
or killing it changes nothing for the workers. No call waits for a worker: the watcher's thread tracks them.
"""

import hashlib
import json
import os
import pwd
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grus.concurrency.listeners import Listeners
from grus.engines.local import (
    cgroup_detection,
    fencing,
    log_rotation,
    orphans,
    reports,
    state_files,
    worker_records,
)
from grus.engines.local import usage as measuring
from grus.engines.local.cgroup_detection import CpuGroups
from grus.engines.local.gpu_device_binding import Binding, CannotStart, bind, find_mps
from grus.engines.local.sandbox import SandboxSettings, SandboxSpec
from grus.engines.local.watcher import Watcher
from grus.engines.local.worker_records import WorkerRecord
from grus.model.errors import Conflict, NotFound
from grus.model.identifiers import DeviceId, JobId, UserName, WorkerId
from grus.model.interfaces import Usage, WorkerSpec, WorkerState, WorkerStatus
from grus.model.jobs import Exit, ExitCause
from grus.model.nodes import Device, Node
from grus.telemetry.device_provider import DeviceSource, Reading


@dataclass(frozen=True, slots=True)
class LogLimits:
    """Limits of a worker's stored log: the newest `segments` files of `segment` bytes."""

    segment: int = log_rotation.SEGMENT
    segments: int = log_rotation.KEEP


SecretValues = Callable[[UserName, Sequence[tuple[str, str]]], dict[str, str]]
"""Values by variable, of a user's secrets by variable and name. Raises NotFound."""

NO_CPU_LIMITS = CpuGroups(0, why="cpu_limits is off in config.toml")


class LocalEngine:
    """`grus.model.interfaces.Engine` with processes of this machine; `state` is a folder of its own."""

    def __init__(
        self,
        state: Path,
        pool: DeviceSource,
        *,
        clock: Callable[[], float] = time.time,
        logs: LogLimits | None = None,
        boxes: SandboxSettings | None = None,
        secrets: SecretValues | None = None,
        cpu: CpuGroups = NO_CPU_LIMITS,
    ) -> None:
        """Set up the engine.

        With `boxes` each worker runs in a sandbox; `secrets` returns the values of a user's secrets; `cpu`
        limits CPU.
        """
        self._secrets = secrets
        self._cpu = cpu
        self._state = state.absolute()
        self._boxes = boxes
        self._pool = pool
        self._clock = clock
        self._logs = logs or LogLimits()
        self._listeners: Listeners[WorkerStatus] = Listeners("changes of workers")
        self._meter = measuring.ProcessTreeMeter()
        self._stage: Path | None = None
        self._running: Watcher | None = None
        self._indexed: tuple[tuple[Node, ...], dict[DeviceId, Device]] = ((), {})
        self._mps = None if pool.virtual else find_mps(os.environ)

    # ------------------------------------------------------------------------------ opening, closing

    def open(self, epoch: int) -> None:
        self.close()
        self._make_folders()
        self._cpu = cgroup_detection.prepare(self._cpu)
        self._stage = fencing.take_over(self._state, epoch)
        for folder in (state_files.TRASH, state_files.NOTIFY):
            for entry in (self._state / folder).iterdir():
                fencing.discard(self._state, entry)
        self._running = Watcher(self._state, self._stage, self._clock, self._tell)
        self._running.start()
        self._pool.open(self._owned)

    def close(self) -> None:
        watcher, self._running = self._running, None
        if watcher is None:
            return
        self._pool.close()
        watcher.close()
        cgroup_detection.release(self._cpu)
        if self._stage is not None:
            fencing.discard(self._state, self._stage)

    def _make_folders(self) -> None:
        for folder in (self._state, *(self._state / name for name in state_files.FOLDERS)):
            # A job of another user must be able to reach its control file, and nothing else.
            passage = folder in (self._state, self._state / state_files.WORKERS)
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o711 if passage else 0o700)  # for any umask
        for folder in (self._state, self._state.parent):
            state_files.sync_folder(str(folder))  # a start that lasts must not hang on a name that does not

    def _watcher(self) -> Watcher:
        if self._running is None:
            raise Conflict("the engine is not open")
        return self._running

    def _acting(self) -> Watcher:
        """Return the watcher for an engine call; raises Fenced if a newer engine has taken over."""
        watcher = self._watcher()
        assert self._stage is not None
        fencing.check(self._stage)
        return watcher

    # ------------------------------------------------------------------------------------- the pool

    def nodes(self) -> tuple[Node, ...]:
        held = set()
        if self._running is not None and not self._pool.virtual:
            with self._running.lock:
                living = [one for one in self._running.records.values() if one.state is not WorkerState.ENDED]
            held = {device for one in living for device in one.devices}
        return self._pool.nodes(held)

    def mechanisms(self) -> dict[str, str]:
        if self._pool.virtual:
            slices = "watched by each worker's supervisor on its processes' memory; the offender is killed"
        elif self._mps is not None:
            slices = f"MPS limits of memory and threads (daemon in {self._mps}), and a watchdog"
        else:
            slices = "GRUS_GPU_MEMORY_FRACTION for the allocator, and a watchdog that kills the offender"
        return {
            "isolation": isolation_words(boxed=self._boxes is not None),
            "stopping": "a sub-reaper above each worker kills all of its descendants",
            "slices": slices,
            "memory": "watched on the processes' proportional set size",
            "cpu": self._cpu.words(),
            **self._pool.mechanisms(),
        }

    # ---------------------------------------------------------------------------------- the workers

    def start(self, worker: WorkerSpec) -> None:
        watcher = self._acting()
        with watcher.lock:
            if worker.id in watcher.records:
                return
            record = watcher.records[worker.id] = WorkerRecord(
                id=worker.id,
                job=worker.job,
                attempt=worker.attempt,
                folder=str(self._state / state_files.WORKERS / worker.id),
                devices=worker.devices,
                share=worker.share,
                token=secrets.token_hex(16),
            )
            try:
                record.secrets = self._values(worker)
                record.request = self._request(worker, record)
            except CannotStart as reason:
                watcher.end(record, Exit(ExitCause.START, None, str(reason)), self._clock())
                return
        watcher.launch(record)

    def stop(self, worker: WorkerId, grace: float) -> None:
        watcher = self._acting()
        with watcher.lock:
            record = watcher.records.get(worker)
            if record is None or record.state is WorkerState.ENDED:
                return
            deadline = time.monotonic() + max(0.0, grace)
            if record.deadline is None or deadline < record.deadline:
                record.deadline = deadline
            watcher.deliver(record)

    def publish(self, worker: WorkerId, control: str) -> None:
        watcher = self._acting()
        with watcher.lock:
            record = watcher.records.get(worker)
            if record is None or record.state is WorkerState.ENDED:
                return
            record.control = control
            if record.placed:
                worker_records.write_control(record, control)

    def workers(self) -> tuple[WorkerStatus, ...]:
        watcher = self._watcher()
        with watcher.lock:
            return tuple(record.status() for record in watcher.records.values())

    def subscribe(self, listener: Callable[[WorkerStatus], None]) -> Callable[[], None]:
        return self._listeners.add(listener)

    def forget(self, worker: WorkerId) -> None:
        watcher = self._acting()
        with watcher.lock:
            record = watcher.records.get(worker)
            if record is None:
                return
            if record.state is not WorkerState.ENDED:
                raise Conflict(f"worker {worker} has not ended; stop it first")
            del watcher.records[worker]
        if state_files.safe_name(worker):
            fencing.discard(self._state, Path(record.folder))

    # ------------------------------------------------------------------------------- use, and logs

    def usage(self) -> tuple[Usage, ...]:
        watcher = self._watcher()
        at = self._clock()
        with watcher.lock:
            running = [one for one in watcher.records.values() if one.state is WorkerState.RUNNING]
        found = self._meter.measure(running, at)
        readings = self._pool.readings()
        with watcher.lock:
            return tuple(
                measuring.usage(record, *found[record.id], at, virtual=self._pool.virtual, readings=readings)
                for record in running
                if record.id in found
            )

    def report(self, worker: WorkerId) -> str:
        watcher = self._watcher()
        with watcher.lock:
            record = watcher.records.get(worker)
        return reports.last_line(record.folder) if record is not None else ""

    def log(self, worker: WorkerId, offset: int = 0, limit: int = 65536) -> tuple[bytes, int]:
        return log_rotation.read(self._log_folder(worker), offset, limit)

    def logged(self, job: JobId) -> tuple[WorkerId, ...]:
        found = (
            log_rotation.names(str(self._state / state_files.LOGS / job))
            if state_files.safe_name(job)
            else []
        )
        return tuple(map(WorkerId, found))

    def remove_logs(self, job: JobId) -> None:
        self._acting()
        if state_files.safe_name(job):
            fencing.discard(self._state, self._state / state_files.LOGS / job)

    def _log_folder(self, worker: WorkerId) -> str:
        watcher = self._watcher()
        with watcher.lock:
            record = watcher.records.get(worker)
        if record is not None:
            return str(self._state / state_files.LOGS / record.job / worker)
        if state_files.safe_name(worker):
            guess = self._state / state_files.LOGS / worker.partition(".")[0] / worker
            for folder in (guess, *(self._state / state_files.LOGS).glob(f"*/{worker}")):
                if folder.is_dir():
                    return str(folder)
        raise NotFound(f"there is no log of a worker {worker}")

    # -------------------------------------------------------------------------------------- inside

    def _tell(self, status: WorkerStatus) -> None:
        if status.state is WorkerState.ENDED:
            self._pool.look_again()
        self._listeners.tell(status)

    def _request(self, worker: WorkerSpec, record: WorkerRecord) -> bytes:
        """The content of spec.json; raises CannotStart where it is clear already that it cannot run."""
        for name, value in (("worker", worker.id), ("job", worker.job)):
            if not state_files.safe_name(value):
                raise CannotStart(
                    f"a {name}'s id has lower-case letters, digits, dots and dashes only: {value!r}"
                )
        if not worker.argv or not worker.argv[0]:
            raise CannotStart("there is no command to run")
        account = _account(worker.unix_user)
        identity = None if account is None else _identity(account)
        binding = bind(worker, self._devices(), virtual=self._pool.virtual, mps=self._mps)
        record.gpu_memory = binding.gpu_memory
        record.readable = identity is not None
        workdir = worker.workdir or "/"
        return json.dumps(
            {
                "job": worker.job,
                "attempt": worker.attempt,
                "argv": worker.argv,
                "env": {**_home(account), **self._environment(worker, record, binding)},
                "workdir": workdir,
                "box": self._box(worker, record.folder, workdir),
                "grace": worker.grace,
                "identity": identity,
                "devices": worker.devices,
                "share": worker.share,
                "gpu_memory": binding.gpu_memory,
                "memory_cap": binding.memory_cap,
                "memory_meaning": binding.memory_meaning,
                "cpu": self._cpu.plan(hashlib.sha256(record.token.encode()).hexdigest()[:16], worker.cpu),
                "pretended": binding.pretended,
                "token": record.token,
                "log_segment": self._logs.segment,
                "log_segments": self._logs.segments,
            }
        ).encode()

    def _values(self, worker: WorkerSpec) -> bytes:
        """Its secrets as JSON, which is written to no file; raises CannotStart if one is gone."""
        if not worker.secrets:
            return b""
        if self._secrets is None or worker.user is None:
            raise CannotStart("there is no store of secrets here")
        try:
            return json.dumps(self._secrets(worker.user, worker.secrets)).encode()
        except NotFound as error:
            raise CannotStart(str(error)) from None

    def _box(self, worker: WorkerSpec, folder: str, workdir: str) -> list[str]:
        """The words that put it into a box; none where there are no boxes."""
        if self._boxes is None:
            return []
        checkpoint = dict(worker.env).get("GRUS_CHECKPOINT", "")
        devices = self._device_files(worker.visible or worker.devices)
        inside = SandboxSpec(
            folder, workdir, worker.vault, checkpoint, devices, with_ipc=self._mps is not None
        )
        return self._boxes.around(inside)

    def _device_files(self, devices: Sequence[DeviceId]) -> tuple[str, ...]:
        """Device files of real GPUs. Raises CannotStart if one is not known: a box would hide that GPU."""
        if self._pool.virtual:
            return ()
        minors = {reading.id: reading.minor for reading in self._pool.readings()}
        if unknown := [device for device in devices if minors.get(device) is None]:
            raise CannotStart(f"the driver does not say which device file is that of {', '.join(unknown)}")
        return tuple(f"/dev/nvidia{minors[device]}" for device in devices)

    def _devices(self) -> dict[DeviceId, Device]:
        """Return the pool by id; rebuilt only when the pool has changed."""
        nodes = self.nodes()
        if nodes is not self._indexed[0]:
            self._indexed = (nodes, {device.id: device for node in nodes for device in node.devices})
        return self._indexed[1]

    def _environment(self, worker: WorkerSpec, record: WorkerRecord, binding: Binding) -> dict[str, str]:
        return {
            **dict(worker.env),
            **binding.env,
            "GRUS_CONTROL": f"{record.folder}/{state_files.CONTROL}",
            "GRUS_REPORT": f"{record.folder}/{state_files.REPORT}",
            "GRUS_BELL": f"{record.folder}/{state_files.BELL}",
            orphans.TOKEN: record.token,
        }

    def _owned(self, readings: Sequence[Reading]) -> frozenset[int]:
        """Return the living workers' processes; on the way,
        kill workers that exceed their slice of a real GPU.
        """
        watcher = self._running
        if watcher is None:
            return frozenset()
        with watcher.lock:
            living = [one for one in watcher.records.values() if one.supervisor and one.handle is not None]
        trees = measuring.trees(living)
        for record in living:
            tree = trees.get(record.id)
            if tree is not None and record.gpu_memory:
                self._check_slice(watcher, record, tree.pids, readings)
        return frozenset(pid for tree in trees.values() for pid in tree.pids)

    def _check_slice(
        self, watcher: Watcher, record: WorkerRecord, pids: frozenset[int], readings: Sequence[Reading]
    ) -> None:
        for reading in readings:
            if reading.id not in record.devices:
                continue
            used = sum(held for pid, held in reading.processes if pid in pids)
            if used > record.gpu_memory:
                cap = f"its slice of {record.gpu_memory / 1e9:.2f} GB"
                text = f"used {used / 1e9:.2f} GB of GPU memory, more than {cap}"
                with watcher.lock:
                    watcher.deliver(record, ExitCause.GPU_MEMORY, text)


def isolation_words(*, boxed: bool) -> str:
    """The isolation of jobs from each other, for people; `boxed`: each worker is in a box."""
    box = "bubblewrap: each worker sees its own processes, files and GPUs"
    if os.geteuid() == 0:
        return "Unix users: each job runs as the account of its submitter" + (f"; {box}" * boxed)
    if boxed:
        return box
    return f"none: all jobs run as uid {os.geteuid()} and can read each other and the server; for one person"


def _account(unix_user: str) -> pwd.struct_passwd | None:
    """Return the account to switch to, where the engine may switch; None for the engine's own user."""
    if not unix_user or os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(unix_user)
    except KeyError:
        raise CannotStart(f"there is no Unix user {unix_user} on this machine") from None


def _identity(account: pwd.struct_passwd) -> dict[str, object]:
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    return {"uid": account.pw_uid, "gid": account.pw_gid, "groups": groups}


def _home(account: pwd.struct_passwd | None) -> dict[str, str]:
    """Return the variables that a login would set for this user; the job's own variables take precedence."""
    if account is None:
        return {}
    return {"HOME": account.pw_dir, "USER": account.pw_name, "LOGNAME": account.pw_name}
