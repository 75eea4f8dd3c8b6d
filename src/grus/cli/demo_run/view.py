"""Display of the demo: a live view on a terminal, plain lines elsewhere; a final table in both.

The text about a job is the event's own sentence: this module makes up no reasons.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from grus.cli.render.output import console, for_people, rich_table, say
from grus.cli.render.pool_view import QUEUE_HEADINGS, look, queue_rows, tiles

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from grus.api.wire_types.job import EventOut, JobOut
    from grus.cli.demo_run.story import DemoResult, DemoSession

LAST_EVENTS = 10
HEADINGS = ("JOB", "PROMISED", "WHAT HAPPENED", "WHY", "OK")


class DemoView(Protocol):
    """Narrates the demo as it happens."""

    def scene(self, title: str) -> None: ...

    def says(self, text: str) -> None: ...

    def events(self, events: "Sequence[EventOut]") -> None: ...

    def gave_up(self, title: str) -> None: ...


class SilentView:
    """Narrator for programs: only the end counts."""

    def scene(self, title: str) -> None: ...

    def says(self, text: str) -> None: ...

    def events(self, events: "Sequence[EventOut]") -> None: ...

    def gave_up(self, title: str) -> None: ...


class LineView:
    """One line a scene, one line an event."""

    def __init__(self, on: "DemoSession") -> None:
        self._on = on
        self._begin = time.monotonic()

    def scene(self, title: str) -> None:
        say(f"\n{self._clock()} {title}")

    def says(self, text: str) -> None:
        say(f"{self._clock()}   {text}")

    def events(self, events: "Sequence[EventOut]") -> None:
        for event in events:
            say(f"{self._clock()}   {self._on.name_of(event.job):20} {event.kind:10} {event.text}")

    def gave_up(self, title: str) -> None:
        say(f"{self._clock()} gave up waiting for: {title}")

    def _clock(self) -> str:
        return f"{time.monotonic() - self._begin:5.1f} s"


class LiveView:
    """The pool as tiles, queues, jobs and the last events, redrawn at each update."""

    def __init__(self, on: "DemoSession", live: "Live") -> None:
        self._on = on
        self._live = live
        self._begin = time.monotonic()
        self._title = self._said = ""
        self._last: deque[tuple[str, str, str]] = deque(maxlen=LAST_EVENTS)

    def scene(self, title: str) -> None:
        self._title, self._said = title, ""

    def says(self, text: str) -> None:
        self._said = text

    def events(self, events: "Sequence[EventOut]") -> None:
        for event in events:
            self._last.append((self._on.name_of(event.job), event.kind, event.text))
        self._live.update(self._draw(), refresh=True)

    def gave_up(self, title: str) -> None:
        self._title = f"gave up waiting for: {title}"

    def _draw(self) -> "RenderableType":
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        seen = look(self._on.client)
        jobs = [_job_row(one.job) for one in self._on.seen.values()]
        clock = f"{time.monotonic() - self._begin:.0f} s"
        return Group(
            Panel(
                Text.assemble((self._title, "bold"), "\n", self._said),
                title="grus demo",
                subtitle=clock,
                border_style="cyan",
            ),
            tiles(seen.nodes, seen.names),
            Text(),
            rich_table(QUEUE_HEADINGS, queue_rows(seen.queues)),
            Text(),
            rich_table(("JOB", "QUEUE", "PHASE", "GPUS", "REASON"), jobs),
            Text(),
            rich_table(("LAST EVENTS", "", ""), list(self._last)),
        )


def _job_row(job: "JobOut") -> tuple[str, ...]:
    return (job.name, job.queue, job.status, f"{job.gpus:g} of {job.request}", job.reason)


@contextmanager
def narrator(on: "DemoSession", *, live: bool, silent: bool) -> "Iterator[DemoView]":
    """The one that suits where the output goes."""
    if silent:
        yield SilentView()
    elif not live:
        yield LineView(on)
    else:
        from rich.live import Live

        with Live(console=console(), auto_refresh=False, transient=True) as screen:
            yield LiveView(on, screen)


def show_verdicts(found: "Sequence[DemoResult]", seconds: float) -> None:
    """The last table: what was promised, what happened and why."""
    rows = [(one.job, one.expected, one.happened, one.why, "ok" if one.ok else "fail") for one in found]
    say()
    if for_people():
        console().print(rich_table(HEADINGS, rows))
    else:
        for job, expected, happened, why, ok in rows:
            say(f"[{ok}] {job}: {expected}\n       happened: {happened}\n       why: {why or 'not said'}")
    good = sum(one.ok for one in found)
    say(f"\n{good} of {len(found)} ended as they should, in {seconds:.0f} s.")
