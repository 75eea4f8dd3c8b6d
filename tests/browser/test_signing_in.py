"""The first visit: a token opens the pages, anything else does not; a session is as long as its token."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.visiting import SignIn, Site, Watch


def test_who_is_not_signed_in_is_asked_for_a_token_and_then_led_to_what_they_wanted(
    page: Page, site: Site
) -> None:
    page.goto("/admin?x=1")
    expect(page).to_have_url(re.compile(r"/sign-in\?next=%2Fadmin%3Fx%3D1$"))
    expect(page.get_by_label("Your token")).to_be_focused()
    page.get_by_label("Your token").fill(f"  {site.token}\n")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{site.address}/admin?x=1")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def test_the_browser_keeps_a_cookie_that_scripts_cannot_read_and_no_token(
    page: Page, site: Site, sign_in: SignIn
) -> None:
    sign_in(at="/admin")
    (kept,) = page.context.cookies()
    assert (kept["name"], kept["httpOnly"], kept["sameSite"]) == ("grus_session", True, "Strict")
    assert site.token not in str(page.context.storage_state())
    assert page.evaluate("document.cookie") == ""
    assert site.token not in page.content()


@pytest.mark.parametrize(
    ("given", "told"),
    [("grus_wrong", "is not known here"), ("   ", "Paste a token first"), ("é" * 100, "is not known here")],
)
def test_a_wrong_token_is_refused_in_words_and_opens_nothing(
    page: Page, watch: Watch, given: str, told: str
) -> None:
    watch.allow("401")
    page.goto("/sign-in")
    page.get_by_label("Your token").fill(given)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text(told)
    assert page.context.cookies() == []


def test_a_token_that_is_taken_back_ends_the_session_at_the_next_step(
    page: Page, site: Site, sign_in: SignIn
) -> None:
    sign_in(site.person("ada"), at="/admin")
    expect(page.get_by_role("heading", name="Your tokens")).to_be_visible()
    for token in site.ask("GET", "/v1/tokens"):
        if token["user"] == "ada":
            site.ask("DELETE", f"/v1/tokens/{token['digest']}")
    page.reload()
    expect(page).to_have_url(re.compile("/sign-in"))


def test_signing_out_ends_it_here(page: Page, sign_in: SignIn) -> None:
    sign_in(at="/admin")
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("/sign-in$"))
    assert page.context.cookies() == []
    page.goto("/admin")
    expect(page).to_have_url(re.compile("/sign-in"))


@pytest.mark.parametrize("wanted", ["//evil.example/", "https://evil.example", "/\\evil.example", "/%0d%0ax"])
def test_signing_in_never_leads_away_from_here(page: Page, site: Site, wanted: str, watch: Watch) -> None:
    watch.allow("404")
    page.goto(f"/sign-in?next={wanted}")
    page.get_by_label("Your token").fill(site.token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{site.address}/")


def test_the_command_line_opens_the_pages_signed_in_once(browser: Browser, site: Site) -> None:
    address = site.grus.json("dashboard")["address"]
    for expected in ("signed in", "refused"):
        with browser.new_context() as visitor:
            page = visitor.new_page()
            page.goto(address)
            if expected == "signed in":
                page.wait_for_url(f"{site.address}/")
                assert [cookie["name"] for cookie in visitor.cookies()] == ["grus_session"]
            else:
                expect(page.get_by_role("alert")).to_contain_text("was used before")
                assert visitor.cookies() == []
            assert "code" not in page.url


def test_a_page_of_another_site_can_change_nothing_with_the_session(
    page: Page, site: Site, sign_in: SignIn, watch: Watch
) -> None:
    """A form posted from elsewhere comes without the cookie, and one forged here without the proof."""
    sign_in(at="/admin")
    watch.allow("403")
    told = page.evaluate(
        """async () => {
            const answer = await fetch("/v1/users/mallory", {
                method: "PUT", headers: {"Content-Type": "application/json"}, body: '{"role": "admin"}'});
            return [answer.status, (await answer.json()).error.code];
        }"""
    )
    assert told == [403, "wrong_form"]
    assert "mallory" not in str(site.ask("GET", "/v1/users"))
