"""Draw the report's pictures from a few minutes of a small lab on a real server: `python -m tools.figures`.

Two teams submit bursts of jobs; then a training is run on 1, 2, 4 and 8 pretend GPUs. What is drawn is what
`grus report --static` says of it, by the very figures of its page: docs/pictures/report-*.svg and report.png.
Needs Chromium, in which Plotly draws.
"""

import shutil
import sys
import tempfile
import threading
import time
from base64 import b64decode
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote

from playwright.sync_api import Browser, sync_playwright

from grus.api.wire_types.report import ReportOut
from grus.cli.demo_run.demo import own_server
from grus.cli.demo_run.story import JOBS
from grus.cli.render.scaling_report import with_static
from grus.reports import charts
from grus.reports.report_html import page
from grus.sdk.client import Client
from grus.simulator.html_pages.page_skeleton import Figure

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
TRAINING = Path(__file__).resolve().parent / "lab_training.py"
SIZES = (1, 2, 4, 8)
MEASURED = 20.0
"""Seconds of reports at each size."""
PATIENCE = 300.0
WIDTH = 900
ENOUGH = "enough"
SHOWN = {"width": 1100, "height": 1480}
"""Of the page's picture."""


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for it, asking twice a second."""
    sys.stderr.write(f"{what} …\n")
    deadline, pause = time.monotonic() + PATIENCE, threading.Event()
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        pause.wait(0.5)


class Lab:
    """What two teams do on eight GPUs."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self.folder = folder

    def submit(
        self, name: str, queue: str, program: Path, *words: str, gpu: int | str, **more: object
    ) -> str:
        job = {
            "name": name,
            "queue": queue,
            "run": [sys.executable, "-u", str(program), *words],
            "resources": {"gpu": gpu},
            "workdir": str(self.folder),
            "checkpoint": {"path": f"checkpoints/{name}", "grace": "10s"},
            **more,
        }
        return self.client.submit(job).job.id

    def burst(self, queue: str, count: int, steps: int, gpu: int = 1) -> list[str]:
        return [
            self.submit(
                f"{queue}-{gpu}x{steps}-{n}", queue, JOBS / "train.py", "--steps", str(steps), gpu=gpu
            )
            for n in range(count)
        ]

    def ended(self, jobs: list[str], count: int) -> bool:
        over = ("succeeded", "failed", "stopped")
        return sum(self.client.job(job).phase in over for job in jobs) >= count

    def bursts(self) -> None:
        """Each team has more than its quota to do while the other rests; then both at once."""
        first = self.burst("vision", 12, 48)
        until(lambda: self.ended(first, 12), "vision has twelve jobs, language rests")
        second = self.burst("language", 2, 40, gpu=4) + self.burst("language", 4, 40)
        until(lambda: self.ended(second, 2), "language has two gangs and four jobs, vision rests")
        third = self.burst("vision", 6, 40)
        until(lambda: self.ended([*second, *third], 12), "both")

    def training(self) -> None:
        """Through all sizes, as long at each as its speed needs to be told."""
        job = self.submit("training", "vision", TRAINING, gpu="1..8", resize="live")
        for size in SIZES:
            self.client.scale(job, str(size))
            until(lambda size=size: self.measured(job, size), f"the training runs on {size}")  # type: ignore[misc]  # the default binds the loop's value
        (self.folder / "checkpoints" / "training" / ENOUGH).touch()
        until(lambda: self.ended([job], 1), "it ends")

    def measured(self, job: str, size: int) -> bool:
        found = self.client.report(job=job).scalability
        sizes = [] if found is None else [one for each in found.speedups for one in each.sizes]
        return any(one.gpus == size and (one.seconds or 0.0) >= MEASURED for one in sizes)


def played() -> tuple[ReportOut, ReportOut]:
    """What is told of the bursts, and of all: how long a training takes whose size a person sets again and
    again says nothing of a split."""
    folder = Path(tempfile.mkdtemp(prefix="grus-figures-"))
    try:
        with own_server(folder) as client:
            lab = Lab(client, folder)
            lab.bursts()
            bursts = with_static(client, client.report())
            lab.training()
            return bursts, client.report().model_copy(update={"static": bursts.static})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# ------------------------------------------------------------------------------------------------- drawing


def drawn(browser: Browser, script: str, figure: Figure, height: int) -> str:
    """The figure as SVG, as Plotly draws it."""
    white = {"paper_bgcolor": "white", "plot_bgcolor": "white", "font": {"family": "sans-serif"}}
    layout = figure["layout"]
    assert isinstance(layout, dict)
    tab = browser.new_page()
    tab.set_content('<div id="plot"></div>')
    tab.add_script_tag(content=script)
    address: str = tab.evaluate(
        "async ([data, layout, size]) => {"
        " await Plotly.newPlot('plot', data, layout);"
        " return await Plotly.toImage('plot', {format: 'svg', ...size}); }",
        [figure["data"], {**layout, **white, "height": height}, {"width": WIDTH, "height": height}],
    )
    tab.close()
    head, _, body = address.partition(",")
    return b64decode(body).decode() if head.endswith("base64") else unquote(body)


def pictures(bursts: ReportOut, report: ReportOut) -> dict[str, tuple[Figure, int]]:
    assert report.scalability is not None
    assert bursts.elasticity is not None
    assert bursts.elasticity.supply is not None
    assert bursts.static is not None
    training = next(one for one in report.scalability.speedups if len(one.sizes) > 1)
    return {
        "report-speedup": (charts.speedup(training), 420),
        "report-supply": (charts.supply(bursts.elasticity.supply), 320),
        "report-before-after": (charts.before_after(bursts.static), 260),
    }


def main() -> None:
    bursts, report = played()
    script = files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")
    with sync_playwright() as started:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        for name, (figure, height) in pictures(bursts, report).items():
            (PICTURES / f"{name}.svg").write_text(drawn(browser, script, figure, height) + "\n")
        tab = browser.new_page(viewport=SHOWN)  # type: ignore[arg-type]  # a TypedDict of the same names
        tab.set_content(page(report, script, "Report of a small lab"))
        tab.wait_for_function("[...document.querySelectorAll('.plot')].every(one => one.children.length)")
        tab.screenshot(path=PICTURES / "report.png")
        browser.close()
    sys.stdout.write(report.model_dump_json() + "\n")


if __name__ == "__main__":
    main()
