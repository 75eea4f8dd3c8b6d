"""What holds for every page: text of people stays text, it fits a phone, keys work, and all is labelled."""

import re
import shlex
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from grus.dashboard.mounting import PAGES
from grus.dashboard.page_rendering import MENU
from tests.browser import hostile
from tests.browser.visiting import PATIENCE, SignIn, Site, Watch, served, signed_in

THERE = {getattr(route, "path", "") for part in PAGES for route in part.router.routes}
PATHS = [entry.path for entry in MENU if entry.path in THERE] + [
    path
    for kind, path in (
        ("/jobs/{id}", f"/jobs/{hostile.ENDED}"),
        ("/jobs/{id}", f"/jobs/{hostile.PAUSED}"),
        ("/jobs/{id}", f"/jobs/{hostile.WAITS}"),
        ("/sweeps/{id}", f"/sweeps/{hostile.SWEEP}"),
        ("/runs/{id}", f"/runs/{hostile.ENDED}"),
        ("/graphs/{id}", f"/graphs/{hostile.WAITS}"),
    )
    if kind in THERE
]
SHOWS = {
    "/queues": ["queue"],
    "/jobs": ["name", "user", "queue"],
    f"/jobs/{hostile.ENDED}": ["name", "user", "queue", "exit", "event"],
    f"/jobs/{hostile.PAUSED}": ["name", "user", "queue", "reason"],
    f"/sweeps/{hostile.SWEEP}": ["name", "user", "queue", "axis", "choice", "metric", "by"],
    "/runs": ["name", "user", "queue", "axis", "choice", "metric"],
    f"/runs/{hostile.ENDED}": ["name", "reason", "command", "axis", "choice", "metric", "output", "digest"],
    f"/graphs/{hostile.WAITS}": ["name", "reason"],
    "/admin": ["user", "queue", "label"],
}
"""Fields that a page must show, as the very text that was given."""
PHONE = (360, 740)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server whose store was filled by malicious people, and a job of theirs that runs and writes a log."""
    home = tmp_path_factory.mktemp("hostile")
    hostile.put_into(home)
    for site in served(home, "1x4x16GB"):
        job = {"name": "speaker", "run": f"echo {shlex.quote(hostile.evil('log'))}; exec sleep 600"}
        site.ask("POST", "/v1/jobs", {**job, "workdir": "/", "resources": {"gpu": 1}})
        yield site


@pytest.fixture(scope="module", params=PATHS)
def shown(request: pytest.FixtureRequest, browser: Browser, site: Site) -> Iterator[Page]:
    """A page as the administrator sees it, loaded once for all claims about it."""
    with browser.new_context(base_url=site.address, timezone_id="UTC", locale="en-GB") as context:
        context.set_default_timeout(PATIENCE)
        page, watch = context.new_page(), Watch(site.address)
        watch.over(page)
        signed_in(page, site, at=request.param)
        settle(page)
        yield page
        assert watch.found == []


def set_size(page: Page, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})


def resize(page: Page, width: int, height: int) -> None:
    """Give the window another size, and wait until the page has been drawn with it."""
    set_size(page, width, height)
    page.evaluate("() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    settle(page)


def settle(page: Page) -> None:
    """Until all is there that loads after the page; streams never end, so there is no waiting for silence."""
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)


def test_what_malicious_people_wrote_is_shown_as_text(shown: Page) -> None:
    assert shown.evaluate("window.hacked") is None
    assert shown.locator("img[src=x]").count() == 0
    assert shown.locator("main blink").count() == 0
    text = shown.locator("main").inner_text()
    for field in SHOWS.get(urlsplit(shown.url).path, []):
        assert hostile.evil(field)[1:] in text, field  # a sentence begins with a capital


def test_no_page_is_wider_than_a_phone(shown: Page) -> None:
    resize(shown, *PHONE)
    assert shown.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    wide = """() => [...document.querySelectorAll("main *")].filter(e => {
        const r = e.getBoundingClientRect();
        if (!r.width || r.right <= innerWidth + 1) return false;
        for (let p = e.parentElement; p; p = p.parentElement)
            if (getComputedStyle(p).overflowX !== "visible") return false;
        return true; }).map(e => e.outerHTML.slice(0, 120))"""
    assert shown.evaluate(wide) == []


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_no_page_is_wider_than_its_window(shown: Page, width: int) -> None:
    resize(shown, width, 900)
    assert shown.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("path", PATHS)
def test_a_page_that_opens_on_a_phone_fits_it(page: Page, sign_in: SignIn, path: str) -> None:
    set_size(page, *PHONE)
    sign_in(at=path)
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]


@pytest.mark.parametrize("width", [1280, 1920])
def test_the_list_of_jobs_shows_all_columns_and_breaks_no_short_word(
    page: Page, sign_in: SignIn, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    sign_in(at="/jobs")
    settle(page)
    expect(page.locator("#rows tr").first).to_be_visible()
    table = page.locator("#jobs").locator("..")
    assert table.evaluate("e => e.scrollWidth <= e.clientWidth")  # nothing has to be scrolled to
    tall = """() => [...document.querySelectorAll("#rows td:not(.name)")]
        .filter(e => e.checkVisibility() && e.getClientRects()[0].height > 0)
        .filter(e => { const r = document.createRange(); r.selectNodeContents(e);
            return new Set([...r.getClientRects()].map(b => Math.round(b.top / 12))).size > 2; })
        .map(e => e.textContent.trim())"""
    assert page.evaluate(tall) == []


def test_everything_that_can_be_used_has_a_name_and_the_page_one_heading(shown: Page) -> None:
    nameless = """() => [...document.querySelectorAll("button, a[href], input, select, textarea")]
        .filter(e => e.checkVisibility() && !(e.ariaLabel || e.textContent.trim() || e.labels?.length
            || e.title || e.getAttribute("aria-labelledby")))
        .map(e => e.outerHTML.slice(0, 120))"""
    assert shown.evaluate(nameless) == []
    assert shown.locator("h1").count() == 1
    assert shown.evaluate("[...document.querySelectorAll('img:not([alt])')].length") == 0
    ids = shown.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert sorted(ids) == sorted(set(ids))
    assert shown.title().endswith("· Grus")


def test_every_page_is_there_in_the_dark(shown: Page) -> None:
    shown.emulate_media(color_scheme="dark")
    color = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    shown.emulate_media(color_scheme="light")
    assert max(map(int, re.findall(r"\d+", color)[:3])) < 60


def test_a_hostile_name_in_an_address_is_text_too(page: Page, sign_in: SignIn, watch: Watch) -> None:
    watch.allow("404")
    sign_in(at="/admin")
    page.goto(f"/jobs/{hostile.evil('id')[:40].replace('/', '')}".replace("?", ""))
    expect(page.get_by_role("alert")).to_be_visible()
    assert page.evaluate("window.hacked") is None
    page.goto("/sign-in?fresh=1&next=/%22%3E%3Cscript%3Ewindow.hacked=1%3C/script%3E")
    assert page.evaluate("window.hacked") is None


# --------------------------------------------------------------------------------------------------- keys


def test_keys_open_pages_focus_the_filter_and_show_themselves(
    page: Page, sign_in: SignIn, site: Site
) -> None:
    sign_in(at="/admin")
    for entry in MENU:
        if entry.path in THERE:
            page.keyboard.press("g")
            page.keyboard.press(entry.key)
            page.wait_for_url(re.compile(rf"^{re.escape(site.address + entry.path)}(\?|$)"))
    page.goto("/admin")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    page.goto("/jobs")
    page.keyboard.press("/")
    page.keyboard.type("gp?")
    expect(page.get_by_role("searchbox").first).to_have_value("gp?")
    assert page.url.startswith(f"{site.address}/jobs")


def test_who_uses_the_keyboard_can_skip_the_menu(page: Page, sign_in: SignIn) -> None:
    sign_in(at="/admin")
    page.goto("/admin")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_the_chosen_theme_is_remembered(page: Page, sign_in: SignIn) -> None:
    sign_in(at="/admin")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Light or dark").click()
    dark = page.evaluate(background)
    assert dark != light
    page.reload()
    assert page.evaluate(background) == dark
    page.keyboard.press("t")
    assert page.evaluate(background) == light


# ------------------------------------------------------------------------------------------------ viewers


def test_a_viewer_may_look_at_a_job_and_not_stop_it(
    page: Page, site: Site, sign_in: SignIn, watch: Watch
) -> None:
    """The buttons say so; and one who goes around them is refused by the server."""
    (job,) = [job for job in site.ask("GET", "/v1/jobs") if job["name"] == "speaker"]
    sign_in(site.person("vic", "viewer"), at=f"/jobs/{job['id']}")
    for name in ("Stop", "Pause"):
        button = page.get_by_role("button", name=re.compile(f"^{name}"))
        expect(button).to_be_disabled()
        assert "viewer" in (button.get_attribute("title") or "")
    expect(page.get_by_role("link", name="Submit a job")).to_have_count(0)
    watch.allow("403")
    told = page.evaluate(
        """async (id) => {
            const proof = document.querySelector("meta[name=csrf]").content;
            const headers = {"Grus-Form": proof};
            const answer = await fetch(`/v1/jobs/${id}/stop`, {method: "POST", headers});
            return [answer.status, (await answer.json()).error.message];
        }""",
        job["id"],
    )
    assert told[0] == 403
    assert "viewer may not stop" in told[1]
    assert site.ask("GET", f"/v1/jobs/{job['id']}")["phase"] in ("starting", "running")


def test_markup_in_a_log_and_in_a_command_is_shown_as_text(page: Page, site: Site, sign_in: SignIn) -> None:
    (job,) = [job for job in site.ask("GET", "/v1/jobs") if job["name"] == "speaker"]
    sign_in(at=f"/jobs/{job['id']}")
    expect(page.get_by_role("log")).to_contain_text(hostile.evil("log"))
    expect(page.locator("main")).to_contain_text("echo 'log\"")
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src=x]").count() == 0
