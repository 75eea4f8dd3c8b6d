"""The page of a job: watch it run, pause, resume, scale, read why, follow its log; look without touching."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.visiting import PATIENCE, SignIn, Site
from tests.waiting import poll

LEARNER = Path(__file__).parent / "programs" / "learner.py"


@pytest.fixture
def learner(site: Site, request: pytest.FixtureRequest) -> Iterator[str]:
    """An elastic training that reports and writes; stopped afterwards."""
    job = submitted(
        site, name=request.node.name[5:45].replace("_", "-").strip("-"), run=f"{sys.executable} {LEARNER}"
    )
    yield job
    site.ask("POST", f"/v1/jobs/{job}/stop")


def submitted(site: Site, **changes: Any) -> str:
    body = {
        "resources": {"gpu": "1..2"},
        "launch": "per-gpu",
        "resize": "live",
        "workdir": str(site.grus.work),
        "checkpoint": {"path": f"./{changes['name']}", "grace": "10s"},
        "env": {"EVERY": "0.05"},
    }
    return str(site.ask("POST", "/v1/jobs", {**body, **changes})["id"])


def badge(page: Page) -> Locator:
    return page.locator("#badge")


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("group", name="What to do with it").get_by_role("button", name=name)


def test_one_watches_a_job_run_with_its_strip_its_log_and_its_charts(
    page: Page, sign_in: SignIn, learner: str
) -> None:
    sign_in(at=f"/jobs/{learner}")
    expect(badge(page)).to_have_text("running")
    expect(page.locator("#why-sentence")).to_contain_text("2 GPUs on node-")
    expect(page.locator("#life rect.running")).to_have_count(1)
    expect(page.locator("#workers tbody tr")).to_have_count(2)
    expect(page.locator("#tile-progress")).to_contain_text(re.compile(r"step \d+/4000"))
    expect(page.locator("#log")).to_contain_text(re.compile(r"worker 0 step \d+ loss"))
    use = page.locator("[data-chart=use]")
    expect(use.locator("svg.main-svg").first).to_be_visible()
    expect(page.locator("[data-chart=loss] svg.main-svg").first).to_be_visible()
    expect(page.locator("#events li").last).to_contain_text("submitted")
    assert page.evaluate("typeof Plotly") == "undefined"  # a job needs no chart library


def test_pausing_and_resuming_is_seen_as_it_happens(page: Page, sign_in: SignIn, learner: str) -> None:
    sign_in(at=f"/jobs/{learner}")
    expect(badge(page)).to_have_text("running")
    button(page, "Pause").click()
    expect(badge(page)).to_have_text("paused")
    expect(page.locator("#why-sentence")).to_contain_text("until somebody resumes it")
    expect(page.locator("#life rect.paused")).to_have_count(1)
    expect(page.locator("#no-workers")).to_be_visible()
    expect(button(page, "Pause")).to_be_hidden()
    button(page, "Resume").click()
    expect(badge(page)).to_have_text("running")
    expect(page.locator("#events li").first).to_contain_text("running")
    expect(page.locator("#log .apart")).to_have_text("attempt 2")
    expect(page.locator("#log .apart + .line")).to_contain_text("begins after step")
    page.get_by_text("Its attempts").click()
    rows = page.locator("#attempts tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.last).to_contain_text("paused:")
    expect(rows.first).to_contain_text("it goes on")


def test_pausing_a_job_without_a_checkpoint_asks_first(page: Page, sign_in: SignIn, site: Site) -> None:
    job = submitted(site, name="plain-pause", run="sleep 600", checkpoint={"grace": "1s"}, resize="auto")
    sign_in(at=f"/jobs/{job}")
    expect(badge(page)).to_have_text("running")
    for answer, then in (("Cancel", "running"), ("Pause it", "paused")):
        button(page, "Pause").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("all its work is lost and it restarts from zero")
        dialog.get_by_role("button", name=answer).click()
        expect(badge(page)).to_have_text(then)
    site.ask("POST", f"/v1/jobs/{job}/stop")


def test_scaling_changes_the_height_of_the_strip(page: Page, sign_in: SignIn, learner: str) -> None:
    sign_in(at=f"/jobs/{learner}")
    expect(page.locator("[data-text=gpus]")).to_have_text("2")
    button(page, "Scale").click()
    dialog = page.get_by_role("dialog", name="Scale")
    expect(dialog).to_contain_text("submitted for 1 to 2 workers and has 2 now")
    dialog.get_by_label("At least").fill("1")
    dialog.get_by_label("At most").fill("1")
    dialog.get_by_role("button", name="Scale", exact=True).click()
    expect(page.locator("[data-text=gpus]")).to_have_text("1")
    expect(page.locator("#workers tbody tr")).to_have_count(1)
    heights = page.locator("#life rect.running").evaluate_all(
        "all => all.map(one => one.getAttribute('height'))"
    )
    assert heights[0] == "2"
    assert heights[-1] == "1"
    expect(page.locator("[data-text=summary]")).to_contain_text("2 sizes" if len(heights) == 2 else "sizes")
    button(page, "Scale").click()
    dialog.get_by_role("button", name="As submitted").click()
    # Growing back waits for the scheduler's own pace, and on a busy machine for a new worker.
    expect(page.locator("[data-text=gpus]")).to_have_text("2", timeout=4 * PATIENCE)


def test_a_size_that_is_too_large_is_refused_by_the_form(page: Page, sign_in: SignIn, learner: str) -> None:
    sign_in(at=f"/jobs/{learner}")
    button(page, "Scale").click()
    dialog = page.get_by_role("dialog", name="Scale")
    dialog.get_by_label("At most").fill("9")
    dialog.get_by_role("button", name="Scale", exact=True).click()
    expect(dialog).to_be_visible()
    assert dialog.get_by_label("At most").evaluate("field => field.validity.rangeOverflow")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()


def test_stopping_asks_first_and_ends_the_job(page: Page, sign_in: SignIn, learner: str) -> None:
    sign_in(at=f"/jobs/{learner}")
    expect(badge(page)).to_have_text("running")
    button(page, "Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(badge(page)).to_have_text("running")
    button(page, "Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop it").click()
    expect(badge(page)).to_have_text("stopped")
    expect(button(page, "Stop")).to_be_disabled()
    expect(page.locator("#tile-end-label")).to_have_text("ended")
    expect(page.locator("#log")).to_contain_text("leaves after step")


def test_a_job_that_waits_says_why_and_who_holds_what_it_needs(
    page: Page, sign_in: SignIn, site: Site
) -> None:
    quick = {"launch": "once", "resize": "auto", "checkpoint": {"path": "./x"}, "run": "sleep 600"}
    holder = submitted(site, name="holder", **{**quick, "resources": {"gpu": 4}})
    other = submitted(site, name="other-holder", **{**quick, "resources": {"gpu": 4}})
    waits = submitted(site, name="waits", **{**quick, "resources": {"gpu": 3}})
    try:
        sign_in(at=f"/jobs/{waits}")
        expect(badge(page)).to_have_text("pending")
        expect(page.locator("#why-holders")).to_contain_text("holder")
        expect(page.locator("#life rect.pending")).to_have_count(1)
        site.ask("POST", f"/v1/jobs/{holder}/stop")
        expect(badge(page)).to_have_text("running")
        page.locator("#events li", has_text="submitted").wait_for()
    finally:
        for job in (holder, other, waits):
            site.ask("POST", f"/v1/jobs/{job}/stop")


def test_the_log_follows_until_one_scrolls_up_and_can_be_searched(
    page: Page, sign_in: SignIn, learner: str
) -> None:
    sign_in(at=f"/jobs/{learner}")
    log = page.locator("#log")
    expect(log.locator(".line")).not_to_have_count(0)
    expect(log.locator(".line").nth(40)).to_be_attached()
    at_end = "box => box.scrollHeight - box.scrollTop - box.clientHeight < 30"
    assert log.evaluate(at_end)
    log.evaluate("box => { box.scrollTop = 0 }")
    expect(page.locator("#log-follow")).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#log-new")).to_be_visible()
    assert log.evaluate("box => box.scrollTop") == 0
    page.locator("#log-new").click()
    expect(page.locator("#log-follow")).to_have_attribute("aria-pressed", "true")
    assert log.evaluate(at_end)
    page.get_by_label("Search the log").fill("begins after")
    expect(page.locator("#log-count")).to_have_text(re.compile(r"^1 of \d+ lines$"))
    expect(log.locator("mark")).to_have_text("begins after")
    page.get_by_label("only lines that match").check()
    expect(log.locator(".line:not(.unfinished)")).to_have_count(1)
    page.get_by_label("Search the log").fill("")
    page.get_by_label("Worker", exact=True).select_option("1")
    expect(log).to_contain_text("worker 1 step")


def test_a_huge_log_stays_bounded_in_the_page_and_earlier_lines_can_be_read(
    page: Page, sign_in: SignIn, site: Site
) -> None:
    run = "for i in $(seq 30000); do echo line $i of a long story that goes on; done; sleep 600"
    job = submitted(site, name="storyteller", run=run, launch="once", resources={"gpu": 1}, resize="auto")
    sign_in(at=f"/jobs/{job}")
    log = page.locator("#log")
    expect(log).to_contain_text("line 30000 of")
    first = log.locator(".line").first.inner_text()
    assert log.locator(".line").count() <= 2000
    log.evaluate("box => { box.scrollTop = 0 }")
    page.get_by_role("button", name="Earlier lines").click()
    expect(log.locator(".line").first).not_to_have_text(first)
    number = int(re.findall(r"\d+", log.locator(".line").first.inner_text())[0])
    assert number < int(re.findall(r"\d+", first)[0])
    assert log.locator(".line").count() <= 2000
    site.ask("POST", f"/v1/jobs/{job}/stop")


def test_a_viewer_looks_and_may_not_touch(page: Page, sign_in: SignIn, site: Site, learner: str) -> None:
    sign_in(site.person("vic", "viewer"), at=f"/jobs/{learner}")
    expect(badge(page)).to_have_text("running")
    for name in ("Pause", "Scale", "Stop"):
        expect(button(page, name)).to_be_disabled()
        expect(button(page, name)).to_have_attribute("title", re.compile("a viewer may not"))
    expect(page.locator("#may-not")).to_contain_text("a viewer may not")


def test_charts_follow_the_theme_and_the_width_of_a_phone(page: Page, sign_in: SignIn, learner: str) -> None:
    sign_in(at=f"/jobs/{learner}")
    text = page.locator("[data-chart=memory] .xtick text").first
    expect(text).to_be_visible()
    before = text.evaluate("text => getComputedStyle(text).fill")
    page.keyboard.press("t")
    expect(text).not_to_have_css("fill", before)
    page.set_viewport_size({"width": 360, "height": 740})
    drawn = page.locator("[data-chart=memory] svg.main-svg").first
    expect(drawn).to_have_attribute("width", re.compile(r"^[123]\d\d(\.\d+)?$"))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_what_a_program_writes_and_reports_is_text(page: Page, sign_in: SignIn, site: Site) -> None:
    wrote = "<img src=x onerror=alert(1)></script><script>alert(1)</script>"
    reported = "<b onclick=alert(1)>accuracy</b>"
    line = json.dumps({"at": 1, "figures": {"step": 1, reported: 1}})
    run = f"echo '{wrote}'; echo '{line}' >> $GRUS_REPORT; sleep 600"
    job = submitted(site, name="writer", run=run, launch="once", resources={"gpu": 1})
    sign_in(at=f"/jobs/{job}")
    expect(page.locator("#log")).to_contain_text(wrote)
    expect(page.locator(".facts dd.mono").first).to_contain_text(wrote)
    expect(page.locator("[data-text=progress]")).to_contain_text(f"{reported} 1")
    expect(page.locator("[data-chart=others] .legendtext")).to_have_text(reported)
    assert page.locator("#main img, #main b[onclick], #log script").count() == 0
    site.ask("POST", f"/v1/jobs/{job}/stop")


def test_pointing_at_a_chart_shows_its_values(page: Page, sign_in: SignIn, learner: str) -> None:
    sign_in(at=f"/jobs/{learner}")
    drawn = page.locator("[data-chart=memory] svg.main-svg")
    tip = page.locator("[data-chart=memory] .chart-tip")

    def pointed() -> bool:
        drawn.hover()  # again, where a chart that appeared above has moved this one away
        return "B GPU" in tip.inner_text()

    assert poll(pointed, PATIENCE / 1000)
    page.mouse.move(0, 0)
    expect(tip).to_be_hidden()


def test_a_chart_that_is_drawn_again_keeps_the_values_under_the_pointer(
    page: Page, sign_in: SignIn, learner: str
) -> None:
    """With events in place of a pointer: charts appear with their first values, and move those below."""
    sign_in(at=f"/jobs/{learner}")
    tip = page.locator("[data-chart=memory] .chart-tip")
    page.locator("[data-chart=memory] svg.main-svg").evaluate(
        """svg => {
            svg.id = "before";
            const { x, width } = svg.getBoundingClientRect();
            svg.dispatchEvent(new PointerEvent("pointermove", { clientX: x + width / 2 }));
        }"""
    )
    expect(page.locator("#before")).to_have_count(0)  # drawn again, while the pointer rests
    expect(tip).to_be_visible()
    expect(tip).to_contain_text(re.compile(r"B GPU"))
    page.locator("[data-chart=memory]").dispatch_event("pointerleave")
    expect(tip).to_be_hidden()


def test_a_job_page_transfers_less_than_200_kb(page: Page, sign_in: SignIn, learner: str) -> None:
    lengths: list[int] = []
    page.on("response", lambda answer: lengths.append(int(answer.headers.get("content-length", 0))))
    sign_in(at=f"/jobs/{learner}")
    expect(page.locator("[data-chart=use] svg.main-svg")).to_be_visible()
    expect(page.locator("[data-chart=loss] svg.main-svg")).to_be_visible()
    assert 10_000 < sum(lengths) < 200_000
    assert page.locator("*").count() < 3_000


def test_a_failed_job_shows_its_reason_and_its_log_first(page: Page, sign_in: SignIn, site: Site) -> None:
    job = submitted(
        site,
        name="breaks",
        run="echo half way; sleep 1; echo gone >&2; exit 3",
        launch="once",
        resources={"gpu": 1},
    )
    sign_in(at=f"/jobs/{job}")
    expect(badge(page)).to_have_text("failed")  # also on a page that was open before
    for _ in range(2):
        first = page.locator("#failure > section")
        expect(first).to_have_count(2)
        expect(first.nth(0)).to_contain_text("exit")
        expect(first.nth(1).get_by_role("log")).to_contain_text("gone")
        above = """() => { const edge = (name) => document.querySelector(name).getBoundingClientRect();
            return edge("#failure").bottom <= edge(".job-tiles").top; }"""
        assert page.evaluate(above)
        page.reload()
