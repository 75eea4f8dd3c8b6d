"""Pictures of every page, as people see them: light, dark and on a phone, in docs/pictures/dashboard-*.png.

    python -m tools.screenshots [--to FOLDER] [PAGE ...]

The pages of the pool are those of a made-up one (`tests.dashboard.large`: real store, loop, services and
pages, pretended machines); those of a job, a sweep, stages and runs are of real processes on servers of their
own.
"""

import argparse
import math
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from grus.dashboard.mounting import PAGES
from grus.dashboard.page_rendering import MENU
from tests.browser.visiting import FLAGS, Site, Watch, chromium, served
from tests.dashboard import large
from tools.lived_world import LivedWorld
from tools.small_png import shrink

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"
GPUS, JOBS = 96, 2500
BACK, EVERY = 4 * 3600.0, 60.0
"""Seconds of measurements before now, and between two of them."""
ENOUGH = 150
"""Steps of the real training before its picture is taken."""
TRAINING = {
    "name": "resnet50",
    "run": "python3 train.py",
    "queue": "vision",
    "resources": {"gpu": "1..4"},
    "resize": "restart",
    "checkpoint": {"path": "out", "grace": "20s"},
    "max_runtime": "1h",
}

SEARCH = {
    "name": "tune-resnet",
    "type": "sweep",
    "run": "python3 trial.py",
    "queue": "vision",
    "resources": {"gpu": 0.25},
    "sweep": {
        "metric": "loss",
        "space": {
            "lr": {"log": [1e-4, 1.0]},
            "width": [32, 64, 128],
            "depth": {"int": [1, 8]},
            "drop": {"uniform": [0.0, 0.5]},
        },
        "sampler": "tpe",
        "stopping": {"rule": "asha", "by": "epoch", "first": 1, "most": 27},
        "budget": {"trials": 40, "target": 0.05},
        "parallel": 6,
    },
}
STAGE = {"queue": "vision", "workdir": "/", "resources": {"gpu": 1}, "max_runtime": "10m"}
STAGES = [
    {**STAGE, "name": "prepare", "run": "sleep 2"},
    {**STAGE, "name": "statistics", "run": "sleep 1", "after": ["prepare"]},
    {**STAGE, "name": "train", "run": "sleep 500", "after": ["prepare"]},
    {**STAGE, "name": "evaluate", "run": "true", "after": ["train", "statistics"]},
    {**STAGE, "name": "export", "run": "true", "after": ["train"]},
]
TALL = {"sweep": 1420}
"""Pages whose pictures need more than a window's height."""
OF_REAL = frozenset({"runs"})
"""Pages of the menu that have nothing to show of a made-up pool."""


@dataclass(frozen=True, slots=True)
class Look:
    """One way to see a page."""

    name: str
    width: int
    height: int
    dark: bool = False


LOOKS = (Look("light", 1280, 860), Look("dark", 1280, 860, dark=True), Look("phone", 390, 780))


@dataclass(frozen=True, slots=True)
class Scene:
    """A server, a token for it, and which pages of it are pictured: names and paths."""

    address: str
    token: str
    pages: tuple[tuple[str, str], ...]
    refresh: Callable[[], None] = lambda: None
    """Called before each page: what is measured grows old."""


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--to", type=Path, default=FOLDER)
    parser.add_argument("pages", nargs="*", help="names of pages; all by default")
    told = parser.parse_args()
    if (browser := chromium()) is None:
        raise SystemExit("needs chromium: apt install chromium")
    told.to.mkdir(parents=True, exist_ok=True)
    os.environ["HOME"] = "/home/ada"  # the form for a new job shows it
    for make in (made_up, real, tuned):
        with tempfile.TemporaryDirectory() as folder, make(Path(folder), told.pages) as scene:
            if scene is not None:
                with sync_playwright() as playwright:
                    launched = playwright.chromium.launch(executable_path=browser, args=FLAGS)
                    for look in LOOKS:
                        shoot(launched, scene, look, told.to)
                    launched.close()


# ------------------------------------------------------------------------------------------------- scenes


@contextmanager
def made_up(folder: Path, wanted: list[str]) -> Iterator[Scene | None]:
    """A large pool with some hours of measurements behind it."""
    there = {getattr(route, "path", "") for part in PAGES for route in part.router.routes}
    known = [("sign-in", "/sign-in")]  # before the visitor is signed in
    known += [(entry.path.strip("/") or "pool", entry.path) for entry in MENU if entry.path in there]
    pages = tuple(
        (name, path) for name, path in known if (not wanted or name in wanted) and name not in OF_REAL
    )
    if not pages:
        yield None
        return
    world = LivedWorld(folder, gpus=GPUS, jobs=JOBS)
    try:
        world.remember(GPUS)
        now = time.time()
        for step in range(int(BACK / EVERY)):
            at = now - BACK + step * EVERY
            world.watching.take(world.source.sample(at))
            world.watching.count(at)
        world.measure()
        with large.served(world) as address:
            yield Scene(address, "admin-token", pages, world.measure)
    finally:
        world.close()


@contextmanager
def real(folder: Path, wanted: list[str]) -> Iterator[Scene | None]:
    """One training that grew, gave GPUs back to others and grew again."""
    if wanted and "job" not in wanted:
        yield None
        return
    for site in served(folder / "home", "1x4x80GB:H100"):
        site.ask("PUT", "/v1/queues/vision", {"quota": 2})
        shutil.copy(ROOT / "tools" / "pictured_training.py", folder / "train.py")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        job = site.ask("POST", "/v1/jobs", {**TRAINING, "workdir": str(folder), "env": {"PATH": path}})["id"]
        steps(site, job, ENOUGH // 3)
        other = {"name": "speech", "run": "sleep 25", "workdir": "/", "resources": {"gpu": 2}}
        site.ask("POST", "/v1/jobs", {**other, "max_runtime": "10m"})
        steps(site, job, ENOUGH)
        yield Scene(site.address, site.token, (("job", f"/jobs/{job}"),))


@contextmanager
def tuned(folder: Path, wanted: list[str]) -> Iterator[Scene | None]:
    """A sweep that has found something, and stages of which one runs."""
    names = ("sweep", "graph", *sorted(OF_REAL))
    if wanted and not set(names) & set(wanted):
        yield None
        return
    for site in served(folder / "home", "1x8x80GB:H100"):
        site.ask("PUT", "/v1/queues/vision", {"quota": 8})
        shutil.copy(ROOT / "tools" / "pictured_trial.py", folder / "trial.py")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        sweep = site.ask("POST", "/v1/jobs", {**SEARCH, "workdir": str(folder), "env": {"PATH": path}})["id"]
        stages = [job["id"] for job in site.ask("POST", "/v1/graphs", {"jobs": STAGES})]
        ended(site, sweep)
        ended(site, stages[1])
        pages = (("sweep", f"/sweeps/{sweep}"), ("graph", f"/graphs/{stages[0]}"), ("runs", "/runs"))
        shown = tuple((name, path) for name, path in pages if not wanted or name in wanted)
        yield Scene(site.address, site.token, shown)


def ended(site: Site, job: str) -> None:
    """Until it has."""
    end = time.monotonic() + 600
    while site.ask("GET", f"/v1/jobs/{job}")["phase"] not in ("succeeded", "failed", "stopped"):
        if time.monotonic() > end:
            raise SystemExit(f"the job did not end: {site.ask('GET', f'/v1/jobs/{job}')}")
        time.sleep(1)


def steps(site: Site, job: str, least: int) -> None:
    """Until it has come so far."""
    end = time.monotonic() + 300
    while site.ask("GET", f"/v1/jobs/{job}")["progress"].get("step", 0) < least:
        if time.monotonic() > end:
            raise SystemExit(f"the job did not report: {site.ask('GET', f'/v1/jobs/{job}')}")
        time.sleep(1)


# ----------------------------------------------------------------------------------------------- pictures


def shoot(browser: Browser, scene: Scene, look: Look, to: Path) -> None:
    context = browser.new_context(
        base_url=scene.address,
        viewport={"width": look.width, "height": look.height},
        color_scheme="dark" if look.dark else "light",
        locale="en-GB",
        timezone_id="UTC",
    )
    page, watch = context.new_page(), Watch(scene.address)
    watch.over(page)
    for name, path in scene.pages:
        if name != "sign-in" and not context.cookies():
            sign_in(page, scene)
        scene.refresh()
        page.set_viewport_size({"width": look.width, "height": TALL.get(name, look.height)})
        page.goto(path)
        settle(page)
        file = to / f"dashboard-{name}-{look.name}.png"
        page.screenshot(path=file, full_page=name == "job" and look.name != "phone")
        shrink(file)
        print(f"{file.name}: {math.ceil(file.stat().st_size / 1000)} kB")
    context.close()
    if watch.found:
        raise SystemExit(f"the pages did something wrong: {watch.found}")


def sign_in(page: Page, scene: Scene) -> None:
    form: dict[str, str | float | bool] = {"token": scene.token}
    page.context.request.post("/sign-in", form=form, headers={"Origin": scene.address}, max_redirects=0)


def settle(page: Page) -> None:
    """Until nothing on the page says that it is still loading, and what the stream told first is painted."""
    page.wait_for_load_state("load")
    page.locator("[aria-busy=true]").first.wait_for(state="detached")
    page.get_by_text(re.compile("^(Loading|Gathering)")).first.wait_for(state="detached")
    page.wait_for_timeout(700)


if __name__ == "__main__":
    main()
