"""Objects that pages share while the server runs: the board of all jobs, and the simulation under way."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI

from grus.controlplane.facade.services import Services
from grus.dashboard.live_state.job_index import Board
from grus.dashboard.whatif.simulation_runs import Plays
from grus.model.errors import GrusError
from grus.model.interfaces import Written
from grus.model.jobs import TERMINAL, Job, Phase
from grus.server.http.event_streams import Streams

log = logging.getLogger(__name__)

LIVE = tuple(phase for phase in Phase if phase not in TERMINAL)
AT_ONCE = 50
"""Jobs that are read in one go: some two milliseconds in which no other thread computes."""
REST = 3.0
"""Seconds of rest for one of work."""


def keep(app: FastAPI) -> None:
    """Begin with the app and end before it does."""
    outer = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(running: FastAPI) -> AsyncIterator[None]:
        async with outer(running), _kept(running):
            yield

    app.router.lifespan_context = lifespan


@asynccontextmanager
async def _kept(app: FastAPI) -> AsyncIterator[None]:
    services: Services = app.state.services
    streams: Streams = app.state.streams
    app.state.board = board = Board()
    app.state.plays = plays = Plays(clock=time.time, on_change=streams.poke)

    def heard(written: Sequence[Written]) -> None:
        board.take(job for job, _ in written)
        streams.poke()  # again: who was woken by the commit itself may have looked too early

    leave = services.subscribe(heard)
    closing = threading.Event()
    told = (board, services, streams, closing)
    filling = threading.Thread(target=_fill, args=told, name="board", daemon=True)
    filling.start()
    try:
        yield
    finally:
        closing.set()
        leave()
        await asyncio.to_thread(plays.close)
        await asyncio.to_thread(filling.join)


def _fill(board: Board, services: Services, streams: Streams, closing: threading.Event) -> None:
    """Fill the board with the jobs on record; give up when the server stops, because no page is shown any
    more.

    It reads in small parts, with rests: requests to the server meanwhile need the same interpreter.
    """
    try:
        began = time.thread_time()
        for jobs in _on_record(board, services):
            board.take(jobs)
            if closing.wait(REST * (time.thread_time() - began)):
                return
            began = time.thread_time()
        board.filled()
    except GrusError as error:
        log.error("the list of jobs lacks those from before the start: %s", error)
    streams.poke()


def _on_record(board: Board, services: Services) -> Iterator[list[Job]]:
    """All that have not ended; of the others the newest, as many as the board holds."""
    yield from services.jobs.every(AT_ONCE, LIVE)
    for jobs in services.jobs.every(AT_ONCE, tuple(TERMINAL)):
        if board.crowded:
            return
        yield jobs
