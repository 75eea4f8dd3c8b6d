"""Draw docs/pictures/comparison.png: what `benchmarks.recorded_traces` says of the recorded traces of BigGAN.

`GRUS_DATA=… python -m tools.comparison_picture`. Needs Chromium, in which Plotly draws.
"""

import os
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from playwright.sync_api import sync_playwright

from benchmarks.recorded_traces import report, traces
from grus.compare.html_report import page

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "comparison.png"
WIDTH, HEIGHT = 800, 1130


def main() -> int:
    data = Path(os.environ.get("GRUS_DATA", "")) / "biggan"
    if not traces.are_in(data):
        sys.stderr.write(f"{data} holds no traces: set GRUS_DATA to the folder that has biggan/\n")
        return 1
    script = files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "page.html"
        file.write_text(page(report.sheet(traces.read(data)), script), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        tab.goto(file.as_uri())
        tab.wait_for_selector("#cpu .main-svg")
        tab.screenshot(path=PICTURE)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
