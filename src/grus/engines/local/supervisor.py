"""Supervisor: the process above one worker, from before its start until after its last descendant's death.

Light.

It outlives the server; its data is in its worker's folder. It claims the folder before it starts anything, so
that an engine which considered the worker lost and this process can never both believe that they own it. It
writes `exit.json` only when the kernel reports that no descendant is left.
"""

import errno
import fcntl
import json
import os
import select
import signal
import sys
import time
import traceback
from contextlib import suppress

from grus.engines import gpu_memory
from grus.engines.local import process_kill, processes, reports, spawn_process, state_files
from grus.engines.local.log_rotation import LogWriter
from grus.engines.local.memory import MemoryWatch
from grus.engines.local.spawn_process import Identity
from grus.engines.local.worker_cgroup import CpuGroup

_RETRY = 0.02
"""Seconds between two sweeps of the kill, where no death wakes us earlier."""
_BELL_PAUSE = 0.02
"""Seconds for which a bell that rang is ignored: a worker that rings without end must not keep us busy."""
_ROOM = 1.0
"""Seconds between two tries to write where there was no room."""
_PIPE_SIZE = 1 << 20
_CHUNK = 1 << 16
_F_SETPIPE_SZ = 1031


class Supervisor:
    """One worker's life. `run` returns when it is over and written down."""

    def __init__(self, state: str, name: str, secrets: dict[str, str] | None = None) -> None:
        self._secrets = secrets or {}
        """Values by variable; forgotten once the worker has them."""
        self._state = state
        self._name = name
        self._folder = os.path.join(state, state_files.WORKERS, name)
        self._spec = json.loads(state_files.read_file(self._folder, state_files.SPEC) or b"{}")
        self._argv: list[str] = self._spec["argv"]
        self._workdir: str = self._spec["workdir"]
        self._box: list[str] = self._spec["box"]
        """Words of the sandbox, if any.

        In a sandbox, the main process is the sandbox's outside: its child is the first process inside, which
        adopts all orphans there, and the oldest child of that one is the command.
        """
        self._pretended: int = self._spec["memory_cap"] if self._spec["pretended"] else 0
        """Bytes of the virtual GPU's memory, where that is what caps it; else 0."""
        self._main = 0
        self._status: int | None = None
        """Wait status of the main process, once it has ended."""
        self._stopping: float | None = None
        """Monotonic time at which a stop turns into a kill."""
        self._asked = False
        """True if the main process was to be asked to stop while it was alive."""
        self._unheard = False
        """True if it could not be asked yet, because its sandbox is still being made."""
        self._passed_on = False
        self._childless = True
        self._verdict: tuple[str, str] | None = None
        """Cause and text where we know better than the wait status."""
        self._signals, wake = os.pipe()
        for end in (self._signals, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._poll = select.poll()
        self._poll.register(self._signals, select.POLLIN)
        self._told = -1
        self._started = b""
        """Data of its start that is still to be recorded."""
        self._output = -1
        self._open = True
        self._cpu: CpuGroup | None = None
        """The control group that limits its CPU, if any."""
        self._bell = -1
        self._bell_due: float | None = None
        """Monotonic time at which the bell is listened to again, if it is not."""

    def run(self) -> None:
        if not self._claim():
            return
        self._take_signals()
        self._read_stop()
        if self._stopping is not None:
            self._verdict = ("STOPPED", "stopped before it started")
            self._write_exit()
            return
        self._log = LogWriter(
            os.path.join(self._state, state_files.LOGS, self._spec["job"], self._name),
            self._spec["log_segment"],
            self._spec["log_segments"],
        )
        self._limit_cpu()
        self._start()
        cap, meaning = self._spec["memory_cap"], self._spec["memory_meaning"]
        self._memory = MemoryWatch(cap, meaning, ends=bool(self._pretended))
        while not self._over():
            self._wait()
        self._kill_all()
        if self._told != -1:
            self._heard_from_main()
        self._drain()
        if self._cpu is not None:
            self._cpu.leave()
        self._write_exit()

    # -------------------------------------------------------------------------------------- beginning

    def _claim(self) -> bool:
        """Make the start durable, then take the folder; False if an engine has given it up meanwhile."""
        spec = os.open(os.path.join(self._folder, state_files.SPEC), os.O_RDONLY)
        os.fsync(spec)
        os.close(spec)
        for folder in (self._folder, os.path.dirname(self._folder)):
            state_files.sync_folder(folder)
        me = processes.read(os.getpid())
        assert me is not None
        claim = {"pid": me.pid, "start": me.start, "boot": processes.boot_id(), "at": time.time()}
        return state_files.create_file(self._folder, state_files.CLAIM, json.dumps(claim).encode())

    def _take_signals(self) -> None:
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, lambda _number, _frame: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def _limit_cpu(self) -> None:
        """Enter the CPU group before the command starts, so that none of its processes is ever outside."""
        if self._spec.get("cpu") is None:
            return
        self._cpu = CpuGroup(**self._spec["cpu"])
        if why := self._cpu.enter():
            self._cpu = None
            self._log.write(f"[grus] its CPU is not limited: {why}\n".encode())

    def _start(self) -> None:
        self._output, output = os.pipe()
        with suppress(OSError):  # over the user's limit for pipes: a small pipe works too
            fcntl.fcntl(output, _F_SETPIPE_SZ, _PIPE_SIZE)
        os.set_blocking(self._output, False)
        identity = Identity(**self._spec["identity"]) if self._spec["identity"] else None
        owner = (identity.uid, identity.gid) if identity is not None else None
        with suppress(OSError):  # a full disk: the job matters more than its reports
            reports.create(self._folder, owner)
            self._bell = reports.hang_bell(self._folder, owner)
            self._poll.register(self._bell, select.POLLIN)
        env = {**self._spec["env"], **self._secrets}
        self._secrets = {}
        self._main, self._told = spawn_process.spawn(
            self._argv, env, self._workdir, identity, output, self._pretended, self._box
        )
        self._childless = False
        os.close(output)
        self._poll.register(self._output, select.POLLIN)
        self._poll.register(self._told, select.POLLIN)

    def _heard_from_main(self) -> None:
        """The main process runs its command, or could not."""
        message = os.read(self._told, 100)
        os.close(self._told)
        self._told = -1
        if message:
            self._verdict = ("START", spawn_process.explain(message, self._argv, self._workdir))
            return
        self._started = json.dumps({"pid": self._main, "at": time.time()}).encode()
        self._write_started()
        if self._asked and self._status is None:
            self._terminate_main()

    def _write_started(self) -> None:
        """Record the start; on a full disk this is tried again and again, while the job runs all the same."""
        with suppress(OSError):
            state_files.replace_file(self._folder, state_files.STARTED, self._started)
            self._started = b""
            self._notify()

    def _notify(self) -> None:
        """Notify the running engine; without one this has no effect, since the files are authoritative."""
        folder = os.path.join(self._state, state_files.NOTIFY)
        for name in os.listdir(folder):
            try:
                fifo = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            except OSError:
                continue
            try:
                os.write(fifo, self._name.encode() + b"\n")
            except OSError:
                pass
            finally:
                os.close(fifo)

    # --------------------------------------------------------------------------------------- watching

    def _wait(self) -> None:
        """Sleep until an event, then handle it."""
        until = self._memory.due
        for due in (self._stopping, self._bell_due):
            until = until if due is None else min(until, due)
        if self._unheard:
            until = min(until, time.monotonic() + _RETRY)
        ready = {fd for fd, _ in self._poll.poll(max(0.0, until - time.monotonic()) * 1000 + 1)}
        if self._output in ready:
            self._copy_output()
        if self._told in ready:
            self._poll.unregister(self._told)
            self._heard_from_main()
        if self._started:
            self._write_started()
        self._answer_bell(self._bell in ready)
        self._childless = process_kill.reap(
            self._ended
        )  # before a stop: an end by itself must not look like an effect of the stop
        if self._signals in ready and signal.SIGTERM in os.read(self._signals, 1024):
            self._asked_to_stop()
        if self._unheard and self._status is None:
            self._terminate_main()
        if time.monotonic() >= self._memory.due and not self._childless:
            self._check_memory()

    def _answer_bell(self, rings: bool) -> None:
        """Notify the engine that the worker wants its report to be read now."""
        if rings:
            with suppress(BlockingIOError):
                os.read(self._bell, _CHUNK)
            self._poll.unregister(self._bell)
            self._bell_due = time.monotonic() + _BELL_PAUSE
            self._notify()
        elif self._bell_due is not None and time.monotonic() >= self._bell_due:
            self._bell_due = None
            self._poll.register(self._bell, select.POLLIN)

    def _over(self) -> bool:
        """Return whether the remaining processes must be killed now."""
        if self._childless or self._verdict is not None:
            return True
        if self._stopping is not None and time.monotonic() >= self._stopping:
            return True
        if self._status is None:
            return False
        if self._asked and os.WIFSIGNALED(self._status) and os.WTERMSIG(self._status) == signal.SIGTERM:
            # A shell above the real program died of our SIGTERM without passing it on.
            self._pass_on()
            return False
        return True

    def _ended(self, pid: int, status: int) -> None:
        if pid == self._main:
            self._status = _of_boxed(status) if self._box else status

    def _copy_output(self) -> bool:
        """Move the content of the pipe to the log; False when there is no more for now."""
        try:
            data = os.read(self._output, _CHUNK)
        except BlockingIOError:
            return False
        if not data:  # all ends for writing are closed
            if self._open:
                self._open = False
                self._poll.unregister(self._output)
            return False
        self._log.write(data)
        return True

    def _check_memory(self) -> None:
        text = self._memory.check()
        if text:
            self._verdict = ("GPU_MEMORY" if self._pretended else "MEMORY", text)

    # --------------------------------------------------------------------------------------- stopping

    def _asked_to_stop(self) -> None:
        self._read_stop()
        if self._stopping is None:  # a kill from outside, not the engine's
            self._stopping = time.monotonic() + float(self._spec["grace"])
        if self._status is None and not self._asked:
            self._asked = True
            if self._told == -1:  # before exec it would die of the signal instead of receiving it
                self._terminate_main()

    def _read_stop(self) -> None:
        content = state_files.read_file(self._folder, state_files.STOP)
        if content is None:
            return
        stop = json.loads(content)
        deadline = float(stop["deadline"])
        self._stopping = deadline if self._stopping is None else min(deadline, self._stopping)
        if stop.get("cause"):
            self._verdict = (stop["cause"], stop["text"])

    def _terminate_main(self) -> None:
        """Send SIGTERM, and SIGCONT so that a stopped process
        receives it. It is not reaped: the pid is its own.
        """
        if not self._box:
            os.kill(self._main, signal.SIGTERM)
            os.kill(self._main, signal.SIGCONT)
            return
        table = processes.children(processes.scan())
        inside = [one for init in table.get(self._main, ()) for one in table.get(init.pid, ())]
        self._unheard = not inside
        if inside:
            _end(min(inside, key=lambda one: (one.start, one.pid)))

    def _pass_on(self) -> None:
        """Pass SIGTERM on to the processes that the dead shell left to us; they signal their own children."""
        if self._passed_on:
            return
        self._passed_on = True
        left = process_kill.below_me()
        ours = {one.pid for one in left if one.parent == os.getpid()}
        for one in left:
            if one.parent in ours if self._box else one.pid in ours:
                _end(one)

    def _kill_all(self) -> None:
        """Kill all descendants; return only when the kernel reports none any more."""
        if self._told != -1:
            self._poll.unregister(self._told)
        if self._bell != -1 and self._bell_due is None:
            self._poll.unregister(self._bell)
        while not process_kill.reap(self._ended):
            process_kill.sweep(process_kill.below_me)
            if process_kill.reap(self._ended):
                return
            self._poll.poll(_RETRY * 1000)
            with suppress(BlockingIOError):
                os.read(self._signals, 1024)
            self._copy_output()

    # ----------------------------------------------------------------------------------------- ending

    def _drain(self) -> None:
        while self._copy_output():
            pass

    def _write_exit(self) -> None:
        cause, code, text = self._judge()
        content = json.dumps({"cause": cause, "code": code, "text": text, "at": time.time()}).encode()
        while True:
            try:
                state_files.replace_file(self._folder, state_files.EXIT, content, durable=True)
                return
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                time.sleep(_ROOM)  # a job that is done must not run again because the disk is full

    def _judge(self) -> tuple[str, int | None, str]:
        """Cause (a name of ExitCause), code and sentence."""
        if self._verdict is not None:
            return self._verdict[0], None, self._verdict[1]
        assert self._status is not None
        if self._asked:
            return self._judge_stopped()
        if os.WIFEXITED(self._status):
            code = os.WEXITSTATUS(self._status)
            if code == 0:
                return "DONE", 0, ""
            return self._judge_tail() or ("CODE", code, f"exit code {code}")
        number = os.WTERMSIG(self._status)
        if number == signal.SIGKILL and self._memory.killed_by_kernel():
            return "MEMORY", None, "killed by the kernel because the machine ran out of memory"
        return self._judge_tail() or ("SIGNAL", number, f"killed by signal {number} ({_signal_name(number)})")

    def _judge_stopped(self) -> tuple[str, int, str]:
        """Return the exit after a stop request: the code as
        a shell would show it, 128 + number for a signal.
        """
        assert self._status is not None
        if os.WIFEXITED(self._status):
            code = os.WEXITSTATUS(self._status)
            return "STOPPED", code, f"ended with exit code {code} when asked to stop"
        number = os.WTERMSIG(self._status)
        text = "killed when its grace was over" if number == signal.SIGKILL else "ended by SIGTERM"
        return "STOPPED", 128 + number, text

    def _judge_tail(self) -> tuple[str, int | None, str] | None:
        pretended = self._memory.words if self._pretended else ""
        verdict = gpu_memory.verdict(self._log.tail(gpu_memory.TAIL), pretended=pretended)
        if not verdict:
            return None
        assert self._status is not None
        code = os.WEXITSTATUS(self._status) if os.WIFEXITED(self._status) else None
        return "GPU_MEMORY", code, verdict


def _end(process: processes.Process) -> None:
    processes.send(process.pid, process.start, signal.SIGTERM)
    processes.send(process.pid, process.start, signal.SIGCONT)


def _of_boxed(status: int) -> int:
    """Return the command's wait status from that of its sandbox, which gives a signal as 128 + number.

    A shell does the same.
    """
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
    return code - 128 if 128 < code <= 128 + signal.NSIG - 1 else status


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "real-time"


def supervise(state: str, name: str, secrets: bytes = b"") -> None:
    """The whole life of a supervisor; never returns. Called after the fork, with SIGTERM blocked."""
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        Supervisor(state, name, json.loads(secrets or b"{}")).run()
    except BaseException:  # noqa: BLE001 - the edge of a process; exiting without exit.json tells the engine
        sys.stderr.write(f"supervisor of {name}:\n{traceback.format_exc()}")
        sys.stderr.flush()
        os._exit(1)
    finally:
        os._exit(0)
