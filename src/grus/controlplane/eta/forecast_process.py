"""Forecast process: a separate process that computes forecasts, started when first needed, with its client.

    python -m grus.controlplane.eta.forecast_process

is that process. Forecasts take seconds of arithmetic; in the server's own process they would delay the
control loop, since Python runs one thread at a time. It runs at low priority, communicates over its standard
input and output, and ends when its input does. It knows only the facts that it received; a dead process is
replaced, and the new one receives all facts again.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import IO, BinaryIO, Protocol, TypeVar

from grus.model.identifiers import JobId
from grus.simulator.forecasting.eta_prediction import Forecast
from grus.simulator.forecasting.expected_duration import ForecastJob
from grus.simulator.forecasting.live_forecast_service import Fact, ForecastQuery, JobForecaster

T = TypeVar("T")

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Small arrays: threads of the linear algebra library would only cost memory."""


LEAST_WORLDS = 8
"""Minimum number of simulated futures, regardless of the time they take; fewer give no P90."""
POLITE = 10
"""Niceness above that of the server."""

Message = tuple[Fact, ...] | tuple[ForecastJob, ...] | ForecastQuery
"""Message to the forecast process: pieces of facts, pieces of a request's jobs, then the request itself,
which has no jobs.
"""
Answer = dict[JobId, Forecast] | str
"""Answer: forecasts, or an error in words. They come in pieces, the last of which is empty."""
PIECE = 200
"""Forecasts in a piece: each is read in one call, during which no other thread of the server computes."""
TOLD = 50
"""Jobs in one piece of facts that it receives: likewise, some two milliseconds."""
REST = 1.0
"""Ratio of rest to the time spent on sending facts."""


class ForecastProcessLost(Exception):
    """The process no longer answers, and has lost the facts that it received."""


class ForecastService(Protocol):
    """Forecasts what will become of jobs, from the facts that it received. Used by one thread at a time."""

    def learn(self, facts: Sequence[Fact]) -> None:
        """Record facts. Raises ForecastProcessLost if the process has forgotten everything: then send all of
        them again.
        """
        ...

    def foresee(self, ask: ForecastQuery) -> dict[JobId, Forecast]:
        """Return forecasts. Raises ForecastProcessLost likewise."""
        ...

    def close(self) -> None: ...


class ForecastProcess:
    """Client of the forecast process; see `ForecastService`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def learn(self, facts: Sequence[Fact]) -> None:
        self._send(_pieces(facts, TOLD))

    def foresee(self, ask: ForecastQuery) -> dict[JobId, Forecast]:
        question = replace(ask, present=replace(ask.present, jobs=()))
        process = self._send(chain(_pieces(ask.present.jobs, TOLD), [question]))
        assert process.stdout is not None
        found: dict[JobId, Forecast] = {}
        while piece := self._read(process.stdout):
            found |= piece
        return found

    def _read(self, pipe: IO[bytes]) -> dict[JobId, Forecast]:
        try:
            answer: Answer = pickle.load(pipe)  # noqa: S301 - from our own child
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise self._lost(f"it ended: {error}") from error
        if isinstance(answer, str):
            raise self._lost(answer)
        return answer

    def _send(self, messages: Iterable[Message]) -> "subprocess.Popen[bytes]":
        """Send all messages to the same process, and return it: a process that was started meanwhile has no
        facts.
        """
        process = self._started()
        assert process.stdin is not None
        for message in messages:
            began = time.thread_time()
            try:
                pickle.dump(message, process.stdin, pickle.HIGHEST_PROTOCOL)
                process.stdin.flush()
            except (OSError, ValueError) as error:  # it ended, or was closed here
                raise self._lost(str(error)) from error
            time.sleep(REST * (time.thread_time() - began))
        return process

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "grus.controlplane.eta.forecast_process"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=dict(os.environ) | ONE_THREAD,
                )
            return self._process

    def _lost(self, why: str) -> ForecastProcessLost:
        self.close()
        return ForecastProcessLost(f"the process that computes forecasts failed: {why}")

    def close(self) -> None:
        """End the process in any state. Idempotent; may be called by another thread."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        process.kill()  # It keeps no state, and its results are no longer needed.
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue  # Unsent data is not needed either.


# --------------------------------------------------------------------------------------- inside the process


def serve(read: BinaryIO, write: BinaryIO, foreteller: JobForecaster) -> None:
    """Answer every question until the input ends."""
    facts: list[Fact] = []
    jobs: list[ForecastJob] = []
    while True:
        try:
            message: Message = pickle.load(read)  # noqa: S301 - from the server that started this process
        except EOFError:
            return
        if isinstance(message, tuple):
            facts += [one for one in message if isinstance(one, Fact)]
            jobs += [one for one in message if isinstance(one, ForecastJob)]
        else:
            foreteller.learn(facts)
            whole = replace(message, present=replace(message.present, jobs=tuple(jobs)))
            facts, jobs = [], []
            for answer in _told(_answer(foreteller, whole)):
                pickle.dump(answer, write, pickle.HIGHEST_PROTOCOL)
            write.flush()


def _told(answer: Answer) -> Iterator[Answer]:
    if isinstance(answer, str):
        yield answer
        return
    for piece in _pieces(answer.items(), PIECE):
        yield dict(piece)
    yield {}


def _pieces(whole: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    rest = iter(whole)
    while piece := tuple(islice(rest, size)):
        yield piece


def _answer(foreteller: JobForecaster, ask: ForecastQuery) -> Answer:
    deadline = time.monotonic() + ask.seconds
    try:
        return foreteller.foresee(ask, lambda played: played >= LEAST_WORLDS and time.monotonic() > deadline)
    except Exception:  # noqa: BLE001 - process boundary: the server logs the cause and continues
        return traceback.format_exc().strip()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then closes the input.
    os.nice(POLITE)
    try:
        serve(sys.stdin.buffer, sys.stdout.buffer, JobForecaster())
    except BrokenPipeError:
        return  # The server is gone.


if __name__ == "__main__":
    main()
