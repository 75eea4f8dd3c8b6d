"""Child process for work on a user's code, which may raise, never end, or take all memory.

`run` names a function and its arguments; the child imports and calls it, passes on its progress, and sends
its answer back as JSON. The caller never imports the user's code, and needs no torch. A child that takes too
long or too much memory is killed with all processes that it started; it dies with the caller, too.
"""

import contextlib
import ctypes
import dataclasses
import importlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NoReturn

import psutil

from grus.estimation.user_code_errors import blamed
from grus.model import errors
from grus.model.errors import BadInput, GrusError, Mistake
from grus.model.texts.units import render_bytes_short, render_seconds

Tell = Callable[[str], None]
"""Takes a few words about what is being done now."""

LOOK = 0.05
"""Seconds between looks at the child's memory: it cannot take much of a machine's meanwhile."""
LOOK_AROUND = 1.0
"""Seconds between looks at what the child has started."""
GRANTED = 0.5
"""Share of the memory that is free now, where no limit is given."""
LOADING = 120.0
"""Seconds in which the libraries must be loaded, on a busy machine."""
LAST_LINES = 5
NO_TORCH = "needs torch, which is not installed beside Grus: pip install 'grus-gpu[torch]'"
_PR_SET_PDEATHSIG = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a child."""

    seconds: float = 300.0
    memory: int = 0
    """Bytes of host memory; 0 for half of what is free."""


USUAL = Limits()


def run(
    function: str,
    arguments: Mapping[str, object],
    *,
    what: str,
    folder: Path,
    limits: Limits = USUAL,
    tell: Tell = lambda _: None,
) -> Any:
    """Return the answer of `module:function`, called as function(tell, **arguments) in a child in `folder`.

    Arguments and answer are JSON; dataclasses of the answer arrive as mappings. Raises BadInput about `what`
    (the name of the user's code) when that code fails, and any GrusError that the function raises.
    """
    memory = limits.memory or int(psutil.virtual_memory().available * GRANTED)
    with tempfile.TemporaryFile() as said, _started(folder, said) as (process, answers):
        request = {"function": function, "arguments": dict(arguments), "what": what}
        watch = _ChildMonitor(process.pid, what, dataclasses.replace(limits, memory=memory), tell)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died at once: reported below
            process.stdin.write(json.dumps(request).encode())
            process.stdin.close()
        for line in watch.lines(answers):
            heard = json.loads(line)
            if "loaded" in heard:
                watch.begin()
            elif "tell" in heard:
                watch.now_at(heard["tell"])
            elif "error" in heard:
                raise _error(heard["error"])
            else:
                return heard["answer"]
        raise _died(what, process.wait(), watch.at, said)


class _ChildMonitor:
    """Reads the child's output, and ends the wait when it exceeds its limits."""

    def __init__(self, pid: int, what: str, limits: Limits, tell: Tell) -> None:
        self._process = psutil.Process(pid)
        self._what = what
        self._limits = limits
        self._tell = tell
        self._others: list[psutil.Process] = []
        self._looked = 0.0
        self._end = time.monotonic() + max(LOADING, limits.seconds)
        self.at = ""

    def begin(self) -> None:
        """The libraries are there: from now on it is the user's code that takes the time."""
        self._end = time.monotonic() + self._limits.seconds

    def now_at(self, words: str) -> None:
        self.at = words
        self._tell(words)

    def lines(self, answers: int) -> Iterator[bytes]:
        """Yield the child's output, a line at a time, until it ends."""
        heard = b""
        with selectors.DefaultSelector() as selector:
            selector.register(answers, selectors.EVENT_READ)
            while True:
                if selector.select(LOOK):
                    piece = os.read(answers, 1 << 16)
                    if not piece:
                        return
                    *lines, heard = (heard + piece).split(b"\n")
                    yield from lines
                self._look()

    def _look(self) -> None:
        now = time.monotonic()
        if now > self._end:
            span = render_seconds(self._limits.seconds)
            raise self._refused(f"did not end within {span}", "is it stuck, or does it train already?")
        if self._taken(now) > self._limits.memory:
            amount = render_bytes_short(self._limits.memory)
            hint = "a model that is built with torch.device('meta') takes none"
            raise self._refused(f"took more than {amount} of this machine's memory", hint)

    def _taken(self, now: float) -> int:
        """Bytes that the child and what it has started hold."""
        with contextlib.suppress(psutil.Error):
            if now - self._looked > LOOK_AROUND:
                self._looked = now
                self._others = self._process.children(recursive=True)
            return sum(_resident(process) for process in (self._process, *self._others))
        return 0

    def _refused(self, what: str, hint: str) -> BadInput:
        where = f" while {self.at}" if self.at else ""
        return BadInput([Mistake(self._what, f"{what}{where}; {hint}")])


def _resident(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


@contextlib.contextmanager
def _started(folder: Path, said: IO[bytes]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A child, and the pipe by which it answers; at the end both are gone, and so is all that it started."""
    answers, theirs = os.pipe()
    shown = None if os.environ.get("GRUS_DEBUG") else said
    try:
        process = subprocess.Popen(
            # -P: files beside the user's code must not replace libraries
            [sys.executable, "-P", "-m", __name__, str(theirs), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=shown if shown is not None else sys.stderr,
            stderr=shown,
            cwd=folder,
            env=os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONUNBUFFERED": "1"},
            pass_fds=(theirs,),
            start_new_session=True,
        )
    except OSError as error:
        os.close(answers)
        raise BadInput([Mistake("folder", f"cannot be used: {error.strerror}", str(folder))]) from None
    finally:
        os.close(theirs)
    try:
        yield process, answers
    finally:
        os.close(answers)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


def _error(told: Mapping[str, Any]) -> GrusError:
    """Return the child's exception, to be raised here."""
    if told["mistakes"]:
        return BadInput([Mistake(**mistake) for mistake in told["mistakes"]])
    found: type[GrusError] = getattr(errors, told["kind"], GrusError)
    return found(told["message"])


def _died(what: str, code: int, at: str, said: IO[bytes]) -> BadInput:
    """The child ended without an answer."""
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended the process with code {code}"
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()[-LAST_LINES:]
    where = f" while {at}" if at else ""
    return BadInput([Mistake(what, "\n  ".join([f"{how}{where}", *lines]))])


# --------------------------------------------------------------------------------------------- in the child


def main() -> NoReturn:
    """Run in the child. It exits without the libraries' exit handlers: all output is sent by then."""
    answers, parent = int(sys.argv[1]), int(sys.argv[2])
    _die_with(parent)
    with contextlib.suppress(OSError):  # if there is such a file: short of memory, kill this process first
        Path("/proc/self/oom_score_adj").write_text("1000")

    def send(**words: object) -> None:
        left = memoryview(json.dumps(words).encode() + b"\n")
        while left:
            left = left[os.write(answers, left) :]

    try:
        request = json.load(sys.stdin)
        send(tell="loading torch")
        work = _work(request)
        send(loaded=True)
        with blamed(request["what"]), _without_gpus():
            answer = _plain(work(lambda words: send(tell=words), **request["arguments"]))
        send(answer=answer)
    except GrusError as error:
        mistakes = error.mistakes if isinstance(error, BadInput) else []
        told = [dataclasses.asdict(mistake) for mistake in mistakes]
        send(error={"kind": type(error).__name__, "message": str(error), "mistakes": told})
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _work(request: Mapping[str, Any]) -> Callable[..., object]:
    module, _, name = request["function"].partition(":")
    try:
        found: Callable[..., object] = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise GrusError(f"{request['what']}: {NO_TORCH}") from None
    return found


def _without_gpus() -> contextlib.AbstractContextManager[None]:
    """Return the guard for code that places data on a GPU; code that uses no torch needs none."""
    if "torch" not in sys.modules:
        return contextlib.nullcontext()
    from grus.estimation.cpu_stand_in import elsewhere

    return elsewhere()


def _plain(value: object) -> object:
    """Return the value as JSON types."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return value


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it was quicker
            os._exit(1)


if __name__ == "__main__":
    main()
