"""Simulations that people requested: one at a time, each in a process of its own that can be stopped.

The result of each person's last one is kept until the server stops. Any thread may request and stop; each
simulation has a thread that gathers its jobs, starts the process and reads its output.
"""

import logging
import os
import pickle
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from grus.controlplane.eta.forecast_process import ONE_THREAD
from grus.controlplane.security.rbac import is_admin
from grus.dashboard.whatif.simulation_form import Question
from grus.model.errors import BadInput, Conflict, GrusError, Mistake, NotAllowed, NotFound
from grus.model.identifiers import UserName
from grus.model.interfaces import User

log = logging.getLogger(__name__)

LONGEST = 300.0
"""Seconds that a simulation may take."""
MOST_KEPT = 20
"""People whose last answer is kept."""
COMMAND = (sys.executable, "-P", "-m", "grus.dashboard.whatif.simulation_worker")


class SimulationState(StrEnum):
    GATHERING = "gathering"
    """Its jobs are read."""
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"
    """The question has errors."""
    FAILED = "failed"
    STOPPED = "stopped"


UNDER_WAY = frozenset({SimulationState.GATHERING, SimulationState.RUNNING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """One simulation as it stands."""

    number: int
    user: UserName
    began: float
    stage: SimulationState = SimulationState.GATHERING
    done: int = 0
    of: int = 0
    """Simulated jobs that have ended, out of how many."""
    text: str = ""
    """The failure, or the user who stopped it."""
    mistakes: tuple[Mistake, ...] = ()
    answer: bytes = b""
    """JSON."""

    @property
    def under_way(self) -> bool:
        return self.stage in UNDER_WAY


def _whose(play: Play, viewer: User) -> str:
    """Return the owner's name only for administrators: users do not see people of other projects."""
    return play.user if is_admin(viewer) else "somebody else"


class Plays:
    """See the module."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        on_change: Callable[[], None] = lambda: None,
        longest: float = LONGEST,
        command: tuple[str, ...] = COMMAND,
    ) -> None:
        self._clock = clock
        self._on_change = on_change
        self._longest = longest
        self._command = command
        self._lock = threading.Lock()
        self._last: OrderedDict[UserName, Play] = OrderedDict()
        self._now: _SimulationRun | None = None
        self._count = 0

    def begin(self, user: User, ask: Callable[[], Question]) -> Play:
        """Start one; `ask` is called on its own thread. Raises Conflict while another one is under way."""
        with self._lock:
            if self._now is not None:
                who = (
                    "yours" if self._now.play.user == user.name else f"one of {_whose(self._now.play, user)}"
                )
                raise Conflict(
                    f"a simulation is under way ({who}), and they go one at a time; wait, or stop it"
                )
            self._count += 1
            play = Play(number=self._count, user=user.name, began=self._clock())
            self._now = _SimulationRun(play, ask, self._command, self._longest, self._note)
            self._keep(play)
            self._now.thread.start()
        self._on_change()
        return play

    def of(self, user: User) -> Play | None:
        """Return the last one that this user requested."""
        with self._lock:
            return self._last.get(user.name)

    def other(self, user: User) -> str:
        """Name, in words for this user, the other user who requested the one under way; empty if there is
        none.
        """
        with self._lock:
            now = self._now
        return "" if now is None or now.play.user == user.name else _whose(now.play, user)

    def stop(self, user: User) -> None:
        """End the one under way. Raises NotFound if there is none, NotAllowed if it belongs to another
        user.
        """
        with self._lock:
            run = self._now
        if run is None:
            raise NotFound("no simulation is under way")
        if run.play.user != user.name and not is_admin(user):
            raise NotAllowed("it is somebody else's; only who asked for it or an administrator may stop it")
        run.end(f"{user.name} stopped it")

    def close(self) -> None:
        """End what is under way, and wait until it has. Idempotent."""
        with self._lock:
            run = self._now
        if run is not None:
            run.end("the server stopped")
            run.thread.join()

    def _note(self, play: Play) -> None:
        """A run says how it stands."""
        with self._lock:
            if not play.under_way:
                self._now = None
            self._keep(play)
        self._on_change()

    def _keep(self, play: Play) -> None:
        self._last[play.user] = play
        self._last.move_to_end(play.user)
        while len(self._last) > MOST_KEPT:
            self._last.popitem(last=False)


class _SimulationRun:
    """One simulation under way; its thread is the only one that changes `play`."""

    def __init__(
        self,
        play: Play,
        ask: Callable[[], Question],
        command: tuple[str, ...],
        longest: float,
        note: Callable[[Play], None],
    ) -> None:
        self.play = play
        self.thread = threading.Thread(target=self._work, name=f"simulation-{play.number}", daemon=True)
        self._ask = ask
        self._command = command
        self._longest = longest
        self._note = note
        self._lock = threading.Lock()
        self._why = ""
        """Reason of an early end."""
        self._process: subprocess.Popen[bytes] | None = None

    def end(self, why: str) -> None:
        """End it. From any thread, at any time; the first reason counts."""
        with self._lock:
            self._why = self._why or why
            if self._process is not None:
                self._process.kill()

    def _work(self) -> None:
        try:
            last = self._played()
        except BadInput as error:
            last = replace(self.play, stage=SimulationState.REFUSED, mistakes=tuple(error.mistakes))
        except GrusError as error:
            last = replace(self.play, stage=SimulationState.FAILED, text=str(error))
        except Exception:  # the top of a thread: the user must be notified of its end
            log.exception("a simulation failed")
            last = replace(
                self.play, stage=SimulationState.FAILED, text="It failed; the server's log says why."
            )
        if self._why and last.stage is not SimulationState.DONE:
            last = replace(last, stage=SimulationState.STOPPED, text=self._why, mistakes=())
        self.play = last
        self._note(last)

    def _played(self) -> Play:
        question = self._ask()
        timer = threading.Timer(self._longest, self.end, [f"it took longer than {self._longest:g} s"])
        process = self._started()
        self.play = replace(self.play, stage=SimulationState.RUNNING)
        self._note(self.play)
        timer.start()
        try:
            return self._listened(process, question)
        finally:
            timer.cancel()
            process.kill()
            process.wait()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.close()
            with suppress(OSError):  # what was not sent is not wanted either
                process.stdin.close()

    def _started(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(os.environ) | ONE_THREAD,
        )
        with self._lock:
            self._process = process
            if self._why:  # it was ended while its jobs were read
                process.kill()
        return process

    def _listened(self, process: subprocess.Popen[bytes], question: Question) -> Play:
        """Read the process's output until its last report; the input stays open, because the process ends
        with it.
        """
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):  # it is gone: its silence says so
            pickle.dump(question, process.stdin, pickle.HIGHEST_PROTOCOL)
            process.stdin.flush()
        for line in process.stdout:
            play = _heard(self.play, msgspec.json.decode(line, type=dict[str, msgspec.Raw]))
            if not play.under_way:
                return play
            self.play = play
            self._note(play)
        code = process.wait()
        return replace(
            self.play, stage=SimulationState.FAILED, text=f"It ended without an answer (code {code})."
        )


def _heard(play: Play, said: Mapping[str, msgspec.Raw]) -> Play:
    """Apply a line of the process's output to the state."""
    if "answer" in said:
        return replace(play, stage=SimulationState.DONE, done=play.of, answer=bytes(said["answer"]))
    if "mistakes" in said:
        found = msgspec.json.decode(said["mistakes"], type=list[tuple[str, str, str]])
        return replace(play, stage=SimulationState.REFUSED, mistakes=tuple(Mistake(*one) for one in found))
    if "failed" in said:
        why = msgspec.json.decode(said["failed"], type=str)
        cause = msgspec.json.decode(said["traceback"], type=str) if "traceback" in said else why
        log.error("a simulation failed: %s", cause)
        return replace(play, stage=SimulationState.FAILED, text=f"The simulator failed: {why}")
    done, of = (msgspec.json.decode(said[name], type=int) for name in ("done", "of"))
    return replace(play, stage=SimulationState.RUNNING, done=done, of=of)
