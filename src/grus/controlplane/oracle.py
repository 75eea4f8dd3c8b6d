"""Where forecasts are computed: a process of its own, started when first needed, that the server talks to.

    python -m grus.controlplane.oracle

is that process. Forecasts are seconds of arithmetic; in the server's own process they would hold up the
control loop, since Python runs one thread at a time. It runs at low priority, is spoken to over its standard
input and output, and ends when its input does. It knows only what it was told; one that died is replaced, and
told everything anew.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import IO, BinaryIO, Protocol, TypeVar

from grus.model.identifiers import JobId
from grus.simulation.eta import Forecast
from grus.simulation.expected import Standing
from grus.simulation.foretelling import Ask, Fact, Foreteller

T = TypeVar("T")

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Small arrays: threads of the linear algebra library would only cost memory."""


LEAST_WORLDS = 8
"""So many futures are played whatever time it takes; fewer say nothing of a P90."""
POLITE = 10
"""Nicer than the server by so much."""

Message = tuple[Fact, ...] | tuple[Standing, ...] | Ask
"""Pieces of what it shall know, pieces of a question's jobs, then the question, which has none itself."""
Answer = dict[JobId, Forecast] | str
"""Forecasts, or in words what went wrong. They come in pieces, the last of which is empty."""
PIECE = 200
"""Forecasts in a piece: each is read in one call, in which no other thread of the server computes."""
TOLD = 50
"""Jobs in a piece of what it is told: likewise, some two milliseconds."""
REST = 1.0
"""Seconds of rest for one of telling."""


class OracleLost(Exception):
    """It does not answer any more, and has forgotten what it was told."""


class Oracle(Protocol):
    """Answers what will become of jobs, by what it was told. Used by one thread at a time."""

    def learn(self, facts: Sequence[Fact]) -> None:
        """Take note. Raises OracleLost if it has forgotten everything: then tell it all again."""
        ...

    def foresee(self, ask: Ask) -> dict[JobId, Forecast]:
        """Raises OracleLost likewise."""
        ...

    def close(self) -> None: ...


class OracleProcess:
    """See `Oracle`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def learn(self, facts: Sequence[Fact]) -> None:
        self._send(_pieces(facts, TOLD))

    def foresee(self, ask: Ask) -> dict[JobId, Forecast]:
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
        """All to the same process, which is returned: one that is started meanwhile knows nothing."""
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
                    [sys.executable, "-m", "grus.controlplane.oracle"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=dict(os.environ) | ONE_THREAD,
                )
            return self._process

    def _lost(self, why: str) -> OracleLost:
        self.close()
        return OracleLost(f"the process that computes forecasts failed: {why}")

    def close(self) -> None:
        """End it, in whatever it is. Idempotent; may be called by another thread."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        process.kill()  # It keeps nothing, and what it computes is no longer wanted.
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue  # What was not sent is not wanted either.


# --------------------------------------------------------------------------------------- inside the process


def serve(read: BinaryIO, write: BinaryIO, foreteller: Foreteller) -> None:
    """Answer every question until the input ends."""
    facts: list[Fact] = []
    jobs: list[Standing] = []
    while True:
        try:
            message: Message = pickle.load(read)  # noqa: S301 - from the server that started this process
        except EOFError:
            return
        if isinstance(message, tuple):
            facts += [one for one in message if isinstance(one, Fact)]
            jobs += [one for one in message if isinstance(one, Standing)]
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


def _answer(foreteller: Foreteller, ask: Ask) -> Answer:
    deadline = time.monotonic() + ask.seconds
    try:
        return foreteller.foresee(ask, lambda played: played >= LEAST_WORLDS and time.monotonic() > deadline)
    except Exception as error:  # noqa: BLE001 - the edge of the process: the server logs it and goes on
        return f"{type(error).__name__}: {error}"


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then closes the input.
    os.nice(POLITE)
    try:
        serve(sys.stdin.buffer, sys.stdout.buffer, Foreteller())
    except BrokenPipeError:
        return  # The server is gone.


if __name__ == "__main__":
    main()
