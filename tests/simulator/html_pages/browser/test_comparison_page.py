"""The page of a simulation, drawn by a real browser."""

import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from grus.simulator.html_pages.comparison_page import page
from tests.simulator.html_pages.test_comparison_page import a_comparison

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def script() -> str:
    return files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")


def test_a_browser_draws_it_all(tmp_path: Path) -> None:
    """Headless, without network: the marks of the plots are in the page, and nothing went wrong."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("needs chromium")
    file = tmp_path / "page.html"
    file.write_text(page(a_comparison(), script()), encoding="utf-8")
    command = [
        browser,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=20000",
        "--enable-logging=stderr",
        "--dump-dom",
        file.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Uncaught" not in done.stderr
    for name in ("use", "completion", "jobs-0", "jobs-1", "jobs-2"):
        part = done.stdout.split(f'id="{name}"')[1].split('class="figure"')[0]
        assert "main-svg" in part, name
        assert ("bars" if name.startswith("jobs") else "js-line") in part, name
