"""Stages in a browser, drawn as they go on and tried again; and what is kept of their runs, side by side."""

import re

from playwright.sync_api import Page, expect

from tests.browser.visiting import SignIn, Site
from tests.server.process import eventually

STAGE = {"resources": {"gpu": 1}}


def test_stages_are_watched_tried_again_and_their_runs_compared(
    page: Page, sign_in: SignIn, site: Site
) -> None:
    go, good = site.grus.work / "go", site.grus.work / "good"
    stage = {**STAGE, "workdir": str(site.grus.work)}
    jobs = [
        {**stage, "name": "prepare", "run": f"until [ -e {go} ]; do sleep 0.05; done"},
        {**stage, "name": "fit", "run": f"[ -e {good} ]", "after": ["prepare"]},
        {**stage, "name": "tell", "run": "true", "after": ["fit"]},
    ]
    first, second, third = (job["id"] for job in site.ask("POST", "/v1/graphs", {"jobs": jobs}))

    sign_in(at=f"/jobs/{second}")
    page.get_by_role("link", name="stages").click()
    expect(page.locator(f"[data-stage={first}] .words")).to_contain_text("running")
    expect(page.locator(f"[data-stage={third}] .words")).to_contain_text("pending")
    go.touch()
    expect(page.locator("#summary")).to_have_text("3 stages: 1 succeeded, 2 failed")
    expect(page.locator(f"path[data-before={first}].done")).to_have_count(1)
    assert page.locator(f"path[data-before={second}].done").count() == 0

    good.touch()
    line = page.locator(f"[data-line={second}]")
    line.get_by_role("button", name="Retry").click()
    page.get_by_role("dialog").get_by_role("button", name="Try again").click()
    expect(page).not_to_have_url(re.compile(f"/graphs/{second}$"))
    expect(page.locator("#summary")).to_have_text("3 stages: 3 succeeded")
    expect(page.locator(".stage.earlier")).to_have_count(1)

    eventually(lambda: len(site.ask("GET", "/v1/runs?name=fit")) == 2, "both runs are kept")
    page.goto("/runs?name=fit")
    expect(page.locator("#runs tbody tr")).to_have_count(2)
    compare = page.get_by_role("button", name="Compare")
    expect(compare).to_be_disabled()
    for box in page.locator("[name=run]").all():
        box.check()
    compare.click()
    expect(page.locator("tr", has_text="state")).to_contain_text("failed")
    expect(page.get_by_title("differs").first).to_be_visible()
