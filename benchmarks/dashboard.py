"""How quick the dashboard is with 1,000 GPUs and 5,000 jobs. `python -m benchmarks.dashboard [--quick]`

A real server (SQLite, control loop, app; only the machines are pretended) and Debian's Chromium. Each page is
loaded several times by a visitor with an empty cache. `first_paint_ms`: first contentful paint.
`interactive_ms`: the scripts have run, and no task of 50 ms or more comes in the 5 s after it. Both are
the median of the slowest page, that of a job with its charts included. `ms_per_event`: what one event of a
job costs while the pool is open, in CPU time of the server's threads that answer and of the browser's main
thread together, less what the open page costs while nothing happens; `ms_per_message` the same for a message,
which may bring several. `ms_per_look`: new figures of all GPUs, which come every two seconds.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, sync_playwright

from benchmarks.machine import facts

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
QUIET = 5.0
"""Seconds without a long task after which a page counts as having been interactive before them."""
LOOK = 2.0
"""Seconds between two looks of a page at what GPUs measure."""
PAUSE = 0.15
"""Seconds between two events: longer than the pages' own pace, so that each is a message of its own."""
WATCH = """
window.tasks = [];
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) window.tasks.push([one.startTime, one.startTime + one.duration]);
}).observe({ type: "longtask", buffered: true });
"""
FIGURES = """() => ({
  paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
  ready: performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd,
  bytes: performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation"))
    .reduce((sum, one) => sum + one.transferSize, 0),
  tasks: window.tasks,
  elements: document.querySelectorAll("*").length,
})"""
COUNT = """{
  window.messages = 0;
  const Real = EventSource;
  window.EventSource = class extends Real {
    constructor(...given) {
      super(...given);
      this.addEventListener("pool", () => window.messages++);
    }
  };
}"""


@dataclass(frozen=True, slots=True)
class Load:
    """One visit, in milliseconds from the click."""

    paint: float
    interactive: float
    bytes: int
    elements: int


class World:
    """The server's process."""

    def __init__(self, gpus: int, jobs: int) -> None:
        command = [
            sys.executable,
            "-m",
            "benchmarks.dashboard_world",
            "--gpus",
            str(gpus),
            "--jobs",
            str(jobs),
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        first = self._answer()
        self.address, self.job = str(first["address"]), str(first["job"])

    def ask(self, line: str) -> Mapping[str, float]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server ended with {self._process.wait()}")
        found: dict[str, float] = json.loads(line)
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    quick: bool = parser.parse_args().quick
    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if path is None:
        print(json.dumps({"skipped": "there is no Chromium"}))
        return 0
    gpus, jobs, times, events = (100, 500, 2, 20) if quick else (1000, 5000, 5, 200)
    tell(f"building a pool of {gpus} GPUs and {jobs} jobs …")
    world = World(gpus, jobs)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
            figures = measured(world, browser, times, events)
            browser.close()
    finally:
        world.close()
    print(json.dumps({**figures, "gpus": gpus, "jobs": jobs, **facts()}))
    return 0


def measured(world: World, browser: Browser, times: int, events: int) -> dict[str, object]:
    state = signed_in(world, browser)
    pages = {"pool": "/", "queues": "/queues", "jobs": "/jobs", "job": f"/jobs/{world.job}"}
    loads = {name: visits(world, browser, state, name, path, times) for name, path in pages.items()}
    per_page = {name: of_page(found) for name, found in loads.items()}
    event, look = updates(world, browser, state, events)
    return {
        "first_paint_ms": max(one["first_paint_ms"] for one in per_page.values()),
        "interactive_ms": max(one["interactive_ms"] for one in per_page.values()),
        "ms_per_event": round((event.server + event.browser) / max(1, event.events), 2),
        "ms_per_message": round((event.server + event.browser) / max(1, event.messages), 2),
        "server_ms_per_message": round(event.server / max(1, event.messages), 2),
        "browser_ms_per_message": round(event.browser / max(1, event.messages), 2),
        "events": event.events,
        "messages": event.messages,
        "ms_per_look": round((look.server + look.browser) / max(1, look.messages), 1),
        **{f"{name}_{key}": value for name, one in per_page.items() for key, value in one.items()},
    }


def of_page(loads: Sequence[Load]) -> dict[str, float]:
    return {
        "first_paint_ms": round(statistics.median(one.paint for one in loads)),
        "interactive_ms": round(statistics.median(one.interactive for one in loads)),
        "kilobytes": round(loads[0].bytes / 1000),
        "elements": loads[0].elements,
    }


# ------------------------------------------------------------------------------------------------- visits


def signed_in(world: World, browser: Browser) -> str:
    """Cookies of somebody who has signed in, as JSON."""
    with visitor(world, browser, None) as context:
        page = context.new_page()
        page.goto("/sign-in")
        page.get_by_label("Your token").fill("admin-token")
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(lambda url: "/sign-in" not in url)
        return json.dumps(context.storage_state())


@contextmanager
def visitor(world: World, browser: Browser, state: str | None) -> Iterator[BrowserContext]:
    """Somebody with an empty cache."""
    context = browser.new_context(
        base_url=world.address,
        storage_state=None if state is None else json.loads(state),
        viewport={"width": 1440, "height": 900},
    )
    context.add_init_script(WATCH)
    try:
        yield context
    finally:
        context.close()


def visits(world: World, browser: Browser, state: str, name: str, path: str, times: int) -> list[Load]:
    found = []
    for _ in range(times):
        with visitor(world, browser, state) as context:
            page = context.new_page()
            answer = page.goto(path)
            if answer is None or answer.status != 200:
                raise RuntimeError(f"{path} answered {answer and answer.status}")
            if name == "job":
                page.locator(".chart.drawn").first.wait_for(timeout=60_000)
            world.ask(f"measure 3 {QUIET / 3}")  # life goes on while it is looked at
            told = page.evaluate(FIGURES)
            interactive = calm(max(told["paint"], told["ready"]), told["tasks"])
            found.append(Load(told["paint"], interactive, told["bytes"], told["elements"]))
    paints, ready = ([round(getattr(one, key)) for one in found] for key in ("paint", "interactive"))
    tell(f"{name}: first paint after {paints} ms, interactive after {ready} ms")
    return found


def calm(since: float, tasks: Sequence[Sequence[float]]) -> float:
    """When the last long task ended before the first `QUIET` seconds without one."""
    for start, end in sorted((one[0], one[1]) for one in tasks):
        if start - since >= 1000 * QUIET:
            break
        since = max(since, end)
    return since


# ------------------------------------------------------------------------------------------------- updates


def updates(world: World, browser: Browser, state: str, events: int) -> tuple["Cost", "Cost"]:
    """CPU milliseconds of a message about a job, and of one look at all GPUs."""
    looks = max(3, events // 20)
    finish, look = f"finish {events} {PAUSE}", f"measure {looks} {LOOK}"
    tell(f"{events} jobs end, and all GPUs are measured {looks} times, while the pool is open …")
    with visitor(world, browser, state) as context:
        context.add_init_script(COUNT)
        page = context.new_page()
        page.goto("/")
        devtools = context.new_cdp_session(page)
        devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.wait_for_function("window.messages > 0")
        measure = cost(world, page, devtools, look)
        began = time.monotonic()
        event = cost(world, page, devtools, finish)
        still = cost(world, page, devtools, f"wait {time.monotonic() - began}")
    return event.less(still), measure


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU milliseconds of the server and of the browser's main thread, and messages that came."""

    server: float
    browser: float
    messages: int
    events: int

    def less(self, still: "Cost") -> "Cost":
        """Without what the open page costs in the same time while nothing happens."""
        server, browser = self.server - still.server, self.browser - still.browser
        return Cost(max(0.0, server), max(0.0, browser), self.messages, self.events)


def cost(world: World, page: Page, devtools: CDPSession, line: str) -> Cost:
    """Of what `line` makes happen."""
    messages, busy = page.evaluate("window.messages"), main_thread(devtools)
    before = world.ask("cpu")["cpu"]
    told = world.ask(line)
    page.wait_for_timeout(500)  # what was sent last arrives
    server = 1000 * (world.ask("cpu")["cpu"] - before)
    browser = 1000 * (main_thread(devtools) - busy)
    return Cost(server, browser, page.evaluate("window.messages") - messages, int(told["events"]))


def main_thread(devtools: CDPSession) -> float:
    """CPU seconds of the page's main thread so far."""
    told = {one["name"]: one["value"] for one in devtools.send("Performance.getMetrics")["metrics"]}
    return float(told["TaskDuration"])


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
