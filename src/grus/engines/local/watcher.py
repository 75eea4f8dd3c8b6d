"""Watcher thread of the local engine: learns the state of workers from the kernel and updates their records.

It waits on one pidfd per supervisor, the FIFO on which supervisors report starts, and the launcher's socket.
It does not poll, except for a slow check of workers that are still starting, in case a line on the FIFO was
lost. Records change only under `lock`, and this thread alone notifies listeners of changes, in order.
"""

import logging
import os
import secrets
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from grus.engines.local import orphans, processes, state_files, worker_records
from grus.engines.local.forkserver_client import Launcher, LaunchResult
from grus.engines.local.worker_records import WorkerRecord
from grus.model.identifiers import WorkerId
from grus.model.interfaces import WorkerState, WorkerStatus
from grus.model.jobs import Exit, ExitCause

logger = logging.getLogger(__name__)

_SLOW_LOOK = 2.0
_ROOM = 1.0
"""Seconds between two tries to write where there was no room."""
_LAUNCHER_PAUSE = 0.5
"""Seconds before a launcher that died young is started again."""


class Watcher:
    """Lives from `Engine.open` to `Engine.close`."""

    def __init__(
        self, state: Path, stage: Path, clock: Callable[[], float], tell: Callable[[WorkerStatus], None]
    ) -> None:
        self.lock = threading.RLock()
        self.records: dict[WorkerId, WorkerRecord] = {}
        self._state = state
        self._stage = stage
        self._clock = clock
        self._tell = tell
        self._boot = processes.boot_id()
        self._news: deque[WorkerStatus] = deque()
        self._watched: dict[int, WorkerRecord] = {}
        self._closed = threading.Event()
        self._sending = threading.Lock()
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._fifo_path = state / state_files.NOTIFY / secrets.token_hex(8)
        os.mkfifo(self._fifo_path, 0o600)
        self._fifo = os.open(self._fifo_path, os.O_RDWR | os.O_NONBLOCK)
        self._fifo_rest = b""
        self._launcher = self._start_launcher()
        self._epoll.register(self._wake, select.EPOLLIN)
        self._epoll.register(self._fifo, select.EPOLLIN)
        self._thread = threading.Thread(target=self._run, name="grus-engine", daemon=True)

    def start(self) -> None:
        """Find the workers that are there, then watch."""
        with self.lock:
            for folder in sorted((self._state / state_files.WORKERS).iterdir()):
                if state_files.safe_name(folder.name):
                    record = worker_records.load(folder)
                    self.records[record.id] = record
                    self._attach(record)
            self._news.clear()  # a caller that reads `workers` after `open` sees them all
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._awake()
        if self._thread.is_alive():
            self._thread.join()
        with self._sending:
            self._launcher.close()
        with self.lock:
            for handle in (*self._watched, self._fifo, self._wake):
                os.close(handle)
            self._watched.clear()
            for record in self.records.values():
                record.handle = None
        self._epoll.close()
        self._fifo_path.unlink(missing_ok=True)

    # ------------------------------------------------------------------- what the engine asks of it

    def launch(self, record: WorkerRecord) -> None:
        """Pass a new worker to the launcher, once."""
        with self._sending:
            if record.sent_to is None:
                record.sent_to = self._launcher
                self._launcher.send(record.id, record.request, record.secrets)

    def end(self, record: WorkerRecord, exit: Exit, at: float) -> None:
        """Record the end of a worker, from any source; only the first one counts."""
        with self.lock:
            if record.state is WorkerState.ENDED:
                return
            record.state = WorkerState.ENDED
            record.exit = exit
            record.ended_at = at
            record.request = record.secrets = b""
            self._report(record)

    def deliver(self, record: WorkerRecord, cause: ExitCause | None = None, text: str = "") -> None:
        """Bring the request to stop to the supervisor; a cause makes it a kill. Under `lock`."""
        if record.handle is None:
            return
        worker_records.write_stop(record, cause, text)
        try:
            signal.pidfd_send_signal(record.handle, signal.SIGTERM)
        except ProcessLookupError:
            return  # it has just ended, and the watcher will be notified

    # ------------------------------------------------------------------------------------ the thread

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._turn()
            except Exception:  # thread boundary: without this thread the engine would see no changes
                logger.exception("the engine's watcher failed; it goes on")
                self._closed.wait(_LAUNCHER_PAUSE)

    def _turn(self) -> None:
        with self.lock:
            starting = any(one.state is WorkerState.STARTING for one in self.records.values())
        ready = self._epoll.poll(_SLOW_LOOK if starting else -1)
        for handle, _ in ready:
            if handle == self._wake:
                os.eventfd_read(self._wake)
            elif handle == self._fifo:
                self._hear()
            elif handle == self._launcher.fileno():
                self._answers()
            else:
                self._supervisor_ended(handle)
        if not ready:
            self._look_at_starting()
        while self._news:
            self._tell(self._news.popleft())

    def _report(self, record: WorkerRecord) -> None:
        self._news.append(record.status())
        if threading.current_thread() is not self._thread:
            self._awake()

    def _awake(self) -> None:
        try:
            os.eventfd_write(self._wake, 1)
        except (BlockingIOError, OSError):
            return  # awake already, or closed

    def _hear(self) -> None:
        """Lines on the FIFO: names of workers that have started, or rung their bells."""
        try:
            data = os.read(self._fifo, 1 << 16)
        except BlockingIOError:
            return
        *lines, self._fifo_rest = (self._fifo_rest + data).split(b"\n")
        for line in lines:
            self._look(WorkerId(line.decode("ascii", "replace")))

    def _look_at_starting(self) -> None:
        with self.lock:
            names = [
                one.id for one in self.records.values() if one.state is WorkerState.STARTING and one.placed
            ]
        for name in names:
            self._look(name)

    def _look(self, name: WorkerId) -> None:
        with self.lock:
            record = self.records.get(name)
            if record is None or record.state is WorkerState.ENDED:
                return
            if worker_records.refresh(record):
                self._report(record)

    # --------------------------------------------------------------------------------- the launcher

    def _start_launcher(self) -> Launcher:
        self._launcher_born = time.monotonic()
        launcher = Launcher(self._state, self._stage)
        self._epoll.register(launcher.fileno(), select.EPOLLIN)
        return launcher

    def _answers(self) -> None:
        answers = self._launcher.receive()
        if answers is None:
            self._launcher_died()
            return
        for answer in answers:
            with self.lock:
                record = self.records.get(answer.worker)
                if record is not None and not record.placed and record.state is not WorkerState.ENDED:
                    self._take(record, answer)

    def _launcher_died(self) -> None:
        """Start another, and repeat what had no answer: a start that did happen is found by its folder."""
        if self._closed.is_set() or not self._stage.exists():
            self._epoll.unregister(self._launcher.fileno())
            return
        logger.warning("the launcher (pid %d) died; starting another", self._launcher.pid)
        if time.monotonic() - self._launcher_born < _LAUNCHER_PAUSE:
            self._closed.wait(_LAUNCHER_PAUSE)
        with self._sending:
            self._epoll.unregister(self._launcher.fileno())
            self._launcher.close()
            self._launcher = self._start_launcher()
            with self.lock:
                unanswered = [one for one in self.records.values() if one.sent_to is not None and one.request]
            for record in unanswered:
                record.sent_to = self._launcher
                self._launcher.send(record.id, record.request, record.secrets)

    def _take(self, record: WorkerRecord, answer: LaunchResult) -> None:
        record.request = record.secrets = b""
        if answer.outcome == "fenced":
            del self.records[record.id]
        elif answer.outcome == "failed":
            self._give_up(record, f"this machine could not start it: {answer.text}")
        elif answer.outcome == "exists":
            self._attach(record)
        else:
            self._watch(record, answer.pid, answer.start)

    # ----------------------------------------------------------------------------------- attaching

    def _attach(self, record: WorkerRecord) -> None:
        """Find the owner of a worker's folder, and watch its supervisor if that lives. Under `lock`."""
        if worker_records.read_exit(record) is not None:
            self._conclude(record)
            return
        claim = worker_records.read_claim(record)
        if claim is None and worker_records.give_up(record):
            self._give_up(record, "it was never started: the launcher died first")
            return
        claim = claim or worker_records.read_claim(record)
        if claim is None or claim.pid == 0:
            self._give_up(record, "it was never started")
        elif claim.boot != self._boot:
            self._give_up(record, "the machine was restarted while it ran")
        else:
            self._watch(record, claim.pid, claim.start)

    def _watch(self, record: WorkerRecord, pid: int, start: int) -> None:
        record.placed = True
        record.supervisor = pid
        record.handle = processes.open_handle(pid, start)
        if record.handle is None:
            self._conclude(record)
            return
        self._watched[record.handle] = record
        self._epoll.register(record.handle, select.EPOLLIN)
        if record.control is not None:
            worker_records.write_control(record, record.control)
        if record.deadline is not None:
            self.deliver(record)

    def _supervisor_ended(self, handle: int) -> None:
        with self.lock:
            record = self._watched.pop(handle, None)
            if record is None:
                return
            self._epoll.unregister(handle)
            os.close(handle)
            record.handle = None
            self._conclude(record)

    def _conclude(self, record: WorkerRecord) -> None:
        """Its supervisor has ended: take over what it wrote, or clear up after it. Under `lock`."""
        worker_records.refresh(record)
        found = worker_records.read_exit(record)
        if found is not None:
            self.end(record, *found)
            return
        logger.warning("the supervisor of worker %s is gone; killing what is left", record.id)
        threading.Thread(
            target=self._clear, args=(record,), name=f"grus-lost-{record.id}", daemon=True
        ).start()

    def _clear(self, record: WorkerRecord) -> None:
        try:
            if orphans.clear(record.token, self._closed.wait):
                self._give_up(record, "its supervisor was killed; nobody saw it end")
        except Exception:  # thread boundary; the worker then stays as not confirmed dead
            logger.exception("could not clear up after worker %s", record.id)

    def _give_up(self, record: WorkerRecord, text: str) -> None:
        """Record and report that the worker is lost; all its processes must be dead by now.

        On a full disk it is reported when there is space again, because the next engine would not know of an
        unrecorded loss.
        """
        try:
            self._write_lost(record, text)
        except OSError as error:
            logger.error("worker %s is lost, which cannot be written down yet: %s", record.id, error)
            threading.Thread(
                target=self._give_up_later, args=(record, text), name=f"grus-lost-{record.id}", daemon=True
            ).start()

    def _give_up_later(self, record: WorkerRecord, text: str) -> None:
        while not self._closed.wait(_ROOM):
            with suppress(OSError):
                self._write_lost(record, text)
                return

    def _write_lost(self, record: WorkerRecord, text: str) -> None:
        at = self._clock()
        if Path(record.folder).exists():
            worker_records.give_up(record)
            worker_records.write_exit(record, ExitCause.LOST, text, at)
        self.end(record, Exit(ExitCause.LOST, None, text), at)
