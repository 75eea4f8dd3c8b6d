"""The page of a sweep in a browser: trials come and go, charts are drawn, it is paused and goes on."""

import re
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.browser.visiting import SignIn, Site, Watch

TRIAL = Path(__file__).parent / "programs" / "trial.py"
SLOW = 60_000
"""Milliseconds for what takes long on a busy machine: a whole sweep, reading the script of the charts."""
SWEEP: dict[str, Any] = {
    "name": "tuning",
    "type": "sweep",
    "resources": {"gpu": 0.5},
    "checkpoint": {"path": "out/trial", "grace": "10s"},
    "sweep": {
        "metric": "loss",
        "space": {"lr": {"log": [1e-3, 1.0]}, "width": [16, 32]},
        "sampler": "random",
        "stopping": "none",
        "budget": {"trials": 6},
        "parallel": 2,
    },
}


def test_one_watches_a_sweep_from_its_first_trial_to_its_best(
    page: Page, sign_in: SignIn, site: Site
) -> None:
    gate = site.grus.work / "gate"  # no trial ends before the sweep was paused
    asked = {**SWEEP, "run": f"{sys.executable} {TRIAL} {gate}", "workdir": str(site.grus.work)}
    sweep = site.ask("POST", "/v1/jobs", asked)["id"]
    sign_in(at=f"/jobs/{sweep}")
    expect(page).to_have_url(re.compile(f"/sweeps/{sweep}$"))
    rows = page.locator("#trials tbody tr")
    expect(rows.first).to_be_visible()

    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#badge")).to_have_text("paused")
    expect(page.locator("[data-text=gpus]")).to_have_text("0")
    gate.touch()
    page.get_by_role("button", name="Resume").click()

    expect(page.locator("#badge")).to_have_text("succeeded", timeout=SLOW)
    expect(rows).to_have_count(6)
    expect(rows.first).to_contain_text("★ best")
    for name in ("parallel", "history", "curves"):
        expect(page.locator(f"[data-chart={name}] .main-svg").first).to_be_visible(timeout=SLOW)
    expect(page.locator("#winner-params")).to_contain_text("width")

    page.get_by_role("button", name="lr", exact=True).click()
    shown = [float(text) for text in page.locator("#trials td[data-label=lr]").all_inner_texts()]
    assert shown == sorted(shown)
    page.locator("#winner-link").click()
    expect(page.get_by_role("link", name=f"sweep {sweep}")).to_be_visible()
    written_as_one_file(page, site, sweep)


def written_as_one_file(page: Page, site: Site, sweep: str) -> None:
    """`grus sweep plot` draws the same charts without a server."""
    file = site.grus.work / "sweep.html"
    site.grus("sweep", "plot", sweep, "--html", str(file))
    watch = Watch(site.grus.work.as_uri())
    context = require(page.context.browser).new_context(viewport={"width": 360, "height": 900})
    opened = context.new_page()
    watch.over(opened)
    opened.goto(file.as_uri())
    expect(opened.locator("#parallel .main-svg").first).to_be_visible(timeout=SLOW)
    expect(opened.locator(".answer")).to_contain_text("6 trials took")
    assert opened.locator("tbody tr").count() == 6
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()
    assert watch.found == []


def require(browser: Browser | None) -> Browser:
    assert browser is not None
    return browser
