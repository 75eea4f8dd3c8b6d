"""The Submit page: the plan while one writes, mistakes at their lines, a job that runs."""

import re

from playwright.sync_api import Page, Route, expect

from tests.browser.visiting import SignIn, Site, Watch

BROKEN = "name: Bad Name\nrun: python3 x.py\nresources:\n  gpus: 5\n"


def test_a_first_job_is_planned_submitted_and_runs(page: Page, sign_in: SignIn, site: Site) -> None:
    sign_in(at="/submit")
    plan = page.locator("#plans")
    expect(plan).to_contain_text("hello")
    expect(plan.locator(".badge")).to_have_text("starts now")
    page.get_by_role("button", name="Submit", exact=True).click()
    made = page.locator("#submitted-jobs li")
    expect(made).to_have_count(1)
    job = made.get_attribute("data-id")
    assert job is not None
    expect(made.get_by_role("link", name="hello")).to_have_attribute("href", f"/jobs/{job}")
    page.goto(f"/jobs?q={job}")
    expect(page.locator("#rows [data-of=status]")).to_have_text("running")
    site.ask("POST", f"/v1/jobs/{job}/stop")
    expect(page.locator("#rows [data-of=status]")).to_have_text("stopped")


def test_the_plan_warns_of_a_job_without_a_checkpoint(page: Page, sign_in: SignIn) -> None:
    sign_in(at="/submit")
    page.get_by_label("Job file").fill("name: plain\nrun: python3 x.py\n")
    expect(page.locator("#plans .warning")).to_contain_text("Warning: it names no checkpoint")


def test_mistakes_are_shown_while_one_writes_and_lead_to_their_lines(page: Page, sign_in: SignIn) -> None:
    sign_in(at="/submit")
    text = page.get_by_label("Job file")
    text.fill(BROKEN)
    found = page.locator("#mistakes .mistake")
    expect(found).to_have_count(2)
    expect(found.nth(1)).to_contain_text("did you mean gpu")
    expect(page.locator("#lines .wrong")).to_have_text(["1", "4"])
    found.nth(1).get_by_role("button", name="line 4").click()
    expect(text).to_be_focused()
    chosen = text.evaluate("text => text.value.slice(text.selectionStart, text.selectionEnd)")
    assert chosen == "  gpus: 5"
    text.fill(BROKEN.replace("Bad Name", "good").replace("gpus", "gpu"))
    expect(page.locator("#plans")).to_contain_text("good")
    expect(found).to_have_count(0)


def test_a_file_with_mistakes_is_not_submitted(page: Page, sign_in: SignIn, site: Site, watch: Watch) -> None:
    watch.allow("422")  # the browser notes every refusal that it hears
    before = len(site.ask("GET", "/v1/jobs"))
    sign_in(at="/submit")
    page.get_by_label("Job file").fill(BROKEN)
    page.get_by_label("Job file").press("Control+Enter")
    expect(page.locator("#mistakes")).to_contain_text("2 mistakes; nothing would be submitted")
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_enabled()
    expect(page.locator("#submitted")).to_be_hidden()
    assert len(site.ask("GET", "/v1/jobs")) == before


def test_a_plan_of_an_older_text_that_comes_late_does_not_hide_the_mistakes(
    page: Page, sign_in: SignIn, watch: Watch
) -> None:
    watch.allow("422")
    held: list[Route] = []
    page.route("**/submit/plan", lambda route: held.append(route))
    with page.expect_request("**/submit/plan"):
        sign_in(at="/submit")
    page.get_by_label("Job file").fill(BROKEN)
    page.get_by_label("Job file").press("Control+Enter")
    expect(page.locator("#mistakes")).to_contain_text("2 mistakes")
    with page.expect_response("**/submit/plan"):
        held[0].continue_()
    page.evaluate("() => new Promise(done => setTimeout(done))")  # what the answer leads to has happened
    expect(page.locator("#mistakes")).to_contain_text("2 mistakes")


def test_examples_fill_the_file_and_what_was_written_outlives_a_reload(page: Page, sign_in: SignIn) -> None:
    sign_in(at="/submit")
    page.get_by_label("Begin with").select_option(label="Stages")
    expect(page.locator("#plans .planned")).to_have_count(2)
    text = page.get_by_label("Job file")
    text.fill("run: echo mine\n")
    expect(page.locator("#plans .planned")).to_have_count(1)
    page.reload()
    expect(text).to_have_value("run: echo mine\n")


def test_what_people_write_is_shown_as_text(page: Page, sign_in: SignIn) -> None:
    sign_in(at="/submit")
    evil = "<img src=x onerror=alert(1)>"
    page.get_by_label("Job file").fill(f"run: x\nqueue: '{evil}'\n'{evil}': 1\n")
    expect(page.locator("#mistakes")).to_contain_text(evil)
    expect(page.locator("#mistakes img")).to_have_count(0)


def test_a_viewer_reads_why_they_cannot_submit(page: Page, sign_in: SignIn, site: Site) -> None:
    sign_in(site.person("vic", "viewer"), at="/submit")
    expect(page.get_by_role("note")).to_contain_text("A viewer may not submit jobs")
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_disabled()
    expect(page.locator("#mistakes")).to_contain_text("viewer")


def test_at_phone_width_nothing_scrolls_sideways(page: Page, sign_in: SignIn) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    sign_in(at="/submit")
    expect(page.locator("#plans")).to_contain_text(re.compile("hello"))
    wide = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide[0] <= wide[1]
