"""Worker SDK: functions that a script inside a job calls. Standard library only; every call also works
outside Grus.

Grus sends messages to a worker through its environment and one small file (`GRUS_CONTROL`), which says when
to pause. A script checks `should_pause()` between two steps, saves to `checkpoint_path()`, and exits with 0;
when it is started again, `resuming()` is true.

Nothing here may fail a training run: a control file that cannot be read means "continue".
"""

import json
import math
import os
import signal
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path
from types import FrameType

from grus.model.artifacts import input_variable, output_variable

_CONTROL = "GRUS_CONTROL"
_REPORT = "GRUS_REPORT"
_BELL = "GRUS_BELL"
_RUNGS = "GRUS_RUNGS"
_LONGEST = 1 << 20
"""Bytes after which the report file is rewritten from the start: only its last line is read."""
_SAVED = ("saved", "checkpoint")
"""Metrics that report a completed checkpoint."""


class _TerminationFlag:
    """SIGTERM state of this process: was it asked to end? Lives as long as the process."""

    def __init__(self) -> None:
        self.terminate = False
        self.listening = False

    def listen(self) -> None:
        """Install the handler for SIGTERM, once, if no other exists: by default SIGTERM kills before a
        checkpoint is saved.
        """
        if self.listening or threading.current_thread() is not threading.main_thread():
            return
        self.listening = True
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the shape of a handler
        self.terminate = True


_asked = _TerminationFlag()


class _ReportState:
    """Values reported so far: each line holds all of them, because only the last one is read."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        """Lock, because a runtime's own threads report too."""
        self.figures: dict[str, float] = {}
        self.saved_at: float | None = None
        self.standing: dict[str, object] = {}
        """Values that a runtime reports about itself, beside the metrics."""

    def line(self) -> bytes:
        told: dict[str, object] = {"at": time.time(), "figures": self.figures, **self.standing}
        if self.saved_at is not None:
            told["saved_at"] = self.saved_at
        return json.dumps(told).encode() + b"\n"


_said = _ReportState()


class _Rungs:
    """Progress values at which a trial of a sweep reports at once; lives as long as the process."""

    def __init__(self) -> None:
        self.by: str | None = None
        """Progress metric; None before the first read, empty outside a sweep."""
        self.left: list[float] = []
        """Rungs that it has not passed yet."""
        self.count: float | None = 0.0
        """Number of reports so far, of a program that does not report progress; None for one that does."""
        self.lost: set[str] = set()
        """Metrics whose last value was not a number."""

    def placed(self, numbers: dict[str, float]) -> dict[str, float]:
        """Return the metrics with the progress: its own value, or the number of its reports."""
        if self.by is None:
            self._read(os.environ.get(_RUNGS, ""))
        if not self.by or not numbers.keys() - set(_SAVED):
            return numbers
        if self.by in numbers:
            self.count = None
        if self.count is None:
            return numbers
        self.count += 1
        return {**numbers, self.by: self.count}

    def passed(self, numbers: dict[str, float]) -> bool:
        """Return whether these metrics are news that the sweep waits for."""
        if not self.by:
            return False
        lost = {name for name, number in numbers.items() if not math.isfinite(number)}
        news = bool(lost - self.lost)
        self.lost = lost
        while self.left and self.left[0] <= numbers.get(self.by, -math.inf):
            self.left.pop(0)
            news = True
        return news

    def _read(self, text: str) -> None:
        self.by = ""
        with suppress(ValueError, TypeError, LookupError):
            said = json.loads(text)
            self.left, self.count = sorted(map(float, said["at"])), float(said["from"])
            self.by = str(said["by"])


_rungs = _Rungs()


def should_pause() -> bool:
    """Return whether to save and exit now. Call it between steps; it costs a few microseconds.

    The first call, from the main thread and inside Grus, installs a handler for SIGTERM: from then on a
    request to stop or pause no longer kills the script at once, but makes this true. The job's grace period
    runs meanwhile.
    """
    path = os.environ.get(_CONTROL)
    if not path:
        return False
    control = _control(path)
    return asked_to_end() or bool(control.get("pause") or control.get("leave"))


def asked_to_end() -> bool:
    """Return whether SIGTERM has arrived; the first call installs the handler, as `should_pause` says."""
    _asked.listen()
    return _asked.terminate


def resuming() -> bool:
    """Return whether this job ran before and was paused: load the content of `checkpoint_path()`."""
    return os.environ.get("GRUS_RESUME") == "1"


def checkpoint_path(default: str | Path = "checkpoint") -> Path:
    """Return the path of this job's checkpoints; `default` outside Grus, or when the job names no path."""
    return Path(os.environ.get("GRUS_CHECKPOINT") or default)


def params() -> dict[str, object]:
    """Return the parameters chosen for this run; empty if there are none."""
    text = os.environ.get("GRUS_PARAMS", "")
    found = json.loads(text) if text else {}
    if not isinstance(found, dict):
        raise TypeError("GRUS_PARAMS must hold a JSON object")
    return found


def input(name: str, default: str | Path = "") -> Path:
    """Return the path of this input, a file or a folder, read-only; `default` (or inputs/NAME) outside
    Grus.
    """
    found = os.environ.get(input_variable(name))
    if found is None and os.environ.get(_CONTROL):
        raise KeyError(f"this job has no input {name!r}; it is named under `inputs:` of the job")
    return Path(found or default or Path("inputs", name))


def output(name: str, default: str | Path = "") -> Path:
    """Return the path for this output: the path that the job names, whose folder exists, else an empty
    folder.

    Its content when the program ends with 0 is kept, and passed to later jobs. Outside Grus it is `default`,
    or outputs/NAME, which is created.
    """
    found = os.environ.get(output_variable(name))
    if found is None and os.environ.get(_CONTROL):
        raise KeyError(f"this job has no output {name!r}; it is named under `outputs:` of the job")
    place = Path(found or default or Path("outputs", name))
    if not found:
        (place.parent if default else place).mkdir(parents=True, exist_ok=True)
    return place


def report(**figures: float) -> None:
    """Report the progress of the run: `report(step=120, total=5000, loss=0.31)`. Outside Grus it does
    nothing.

    Every metric must be a number (or convertible by `float`). `grus ps` and `grus describe` show the reports
    of a job's first worker, some seconds later. `report(saved=True)` is `saved()`. From `step`, `total` and
    `batch` (examples of one step, all GPUs together) Grus learns how an elastic job scales, and gives it GPUs
    accordingly. Steps that stop show a hang; `step_seconds`, the time that this worker itself needed for a
    step, reported by every worker, shows stragglers. A trial of a sweep must report the metric by which it is
    compared; without a progress value, its progress is the number of its reports.
    """
    numbers = {name: _number(name, value) for name, value in figures.items()}
    if not numbers:
        return
    with _said.lock:
        numbers = _rungs.placed(numbers)
        if any(numbers.get(name) for name in _SAVED):
            _said.saved_at = time.time()
        _said.figures.update({name: number for name, number in numbers.items() if name not in _SAVED})
        _write()
        news = _rungs.passed(_said.figures)
    if news:
        ring()


def tell(**standing: object) -> None:
    """Report a value about this worker that is no metric; for runtimes. Every later line contains it."""
    with _said.lock:
        _said.standing.update(standing)
        _write()


def ring() -> None:
    """Have the last report read now instead of some seconds later."""
    path = os.environ.get(_BELL)
    if not path:
        return
    with suppress(OSError):  # full, or without a reader: the report is read soon anyway
        bell = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(bell, b"!")
        finally:
            os.close(bell)


def _write() -> None:
    path = os.environ.get(_REPORT)
    if not path:
        return
    try:
        # One write to a file opened for appending: lines of several processes never mix.
        with open(path, "ab", buffering=0) as file:
            if file.tell() > _LONGEST:
                file.truncate(0)
            file.write(_said.line())
    except OSError as error:
        warnings.warn(f"the report could not be written: {error}", RuntimeWarning, stacklevel=3)


def saved() -> None:
    """Report that a checkpoint is complete now: from here on, less is lost if this job is preempted."""
    report(saved=True)


def _number(name: str, value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]  # tensors and NumPy scalars turn into floats too
    except (TypeError, ValueError):
        raise TypeError(f"report({name}=…) needs a number, not {type(value).__name__}") from None


def _control(path: str) -> dict[str, object]:
    """Return the control plane's present message; empty if it cannot be read (the file is replaced whole,
    never torn).
    """
    try:
        found = json.loads(Path(path).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
