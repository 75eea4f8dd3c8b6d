"""A development session as its owner sees it: JupyterLab in the browser, a kernel that computes; and as
nobody else does."""

import json
import urllib.error
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.sessions import LAB, Session, a_session
from tests.browser.visiting import SignIn, Site

NOTEBOOK = {
    "cells": [
        {
            "cell_type": "code",
            "id": "one",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": "import grus, os\ngrus.report(step=3)\nprint('computed', 42, os.environ['GRUS_JOB'])",
        }
    ],
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}
SLOW = 60_000


@pytest.fixture(scope="module")
def session(site: Site) -> Iterator[Session]:
    # An administrator like the other: a server that is root runs a member's jobs as their own Unix user.
    with a_session(site, site.person("ada", "admin"), LAB) as found:
        yield found


@pytest.fixture
def lab(browser: Browser, session: Session) -> Iterator[Page]:
    """The browser of its owner, in JupyterLab."""
    with browser.new_context() as visitor:
        page = visitor.new_page()
        page.goto(session.address())
        page.wait_for_url("**/lab**", timeout=SLOW)
        yield page


def test_a_cell_runs_in_a_kernel_inside_the_job(lab: Page, session: Session, site: Site) -> None:
    (site.grus.work / "try.ipynb").write_text(json.dumps(NOTEBOOK))
    lab.goto(f"{session.base}lab/tree/try.ipynb")
    lab.locator(".jp-Notebook .jp-CodeCell").first.click(timeout=SLOW)
    expect(lab.locator(".jp-Notebook-ExecutionIndicator")).to_have_attribute(
        "data-status", "idle", timeout=SLOW
    )
    lab.keyboard.press("Shift+Enter")
    expect(lab.locator(".jp-OutputArea-output").first).to_contain_text(
        f"computed 42 {session.job}", timeout=SLOW
    )


def test_neither_the_secret_nor_a_token_is_told_to_the_browser(lab: Page, session: Session) -> None:
    told = json.loads(lab.locator("#jupyter-config-data").text_content() or "")
    assert told["token"] == ""
    cookies = {cookie["name"]: cookie for cookie in lab.context.cookies()}
    own = cookies[f"grus_dev_{session.job}"]
    assert (own["httpOnly"], own["sameSite"], own["path"]) == (True, "Strict", f"/dev/{session.job}/")
    assert session.token not in str(lab.context.storage_state()) + lab.content()
    assert "#" not in lab.url


def test_its_owner_opens_it_from_the_page_of_its_job_and_nobody_else_is_offered_that(
    page: Page, sign_in: SignIn, session: Session
) -> None:
    sign_in(at=f"/jobs/{session.job}")
    expect(page.locator("#badge")).to_have_text("running")
    expect(page.get_by_role("button", name="Open")).to_be_hidden()
    sign_in(session.token, at=f"/jobs/{session.job}")
    with page.expect_popup() as opening:
        page.get_by_role("button", name="Open").click()
    opening.value.wait_for_url("**/lab**", timeout=SLOW)
    assert opening.value.evaluate("window.opener") is None


def test_what_grus_says_to_the_session_is_shown_in_jupyterlab(lab: Page, session: Session) -> None:
    words = "idle: it is paused in 5m unless it is used"
    lab.route("**/grus/notice", lambda route: route.fulfill(json={"seq": 9, "kind": "idle", "text": words}))
    lab.goto(f"{session.base}lab")
    expect(lab.get_by_text(words).first).to_be_visible(timeout=SLOW)


def test_an_address_opens_it_once(browser: Browser, session: Session) -> None:
    address = session.address()
    for expected in ("opened", "refused"):
        with browser.new_context() as visitor:
            page = visitor.new_page()
            page.goto(address)
            if expected == "opened":
                page.wait_for_url("**/lab**", timeout=SLOW)
            else:
                expect(page.get_by_role("status")).to_contain_text("was used before")
                assert visitor.cookies() == []


@pytest.mark.parametrize("who", ["ben", "admin"])
def test_another_users_token_cannot_open_it(browser: Browser, site: Site, session: Session, who: str) -> None:
    token = site.token if who == "admin" else site.person("ben")
    with pytest.raises(urllib.error.HTTPError) as refused:
        site.ask("POST", f"/v1/jobs/{session.job}/session", token=token)
    assert refused.value.code == 403
    with browser.new_context(bypass_csp=True) as visitor:
        signed = visitor.request.post(
            f"{site.address}/sign-in",
            form={"token": token},
            headers={"Origin": site.address},
            max_redirects=0,
        )
        assert signed.status == 303
        page = visitor.new_page()
        answer = page.goto(f"{session.base}lab")
        assert answer is not None
        assert answer.status == 401
        expect(page.get_by_role("heading")).to_contain_text("not open here")
        for headers in ({}, {"Authorization": f"Bearer {token}"}, {"Authorization": f"token {token}"}):
            asked = "([path, headers]) => fetch(path, {headers}).then((answer) => answer.status)"
            assert page.evaluate(asked, [f"/dev/{session.job}/api/contents", headers]) == 401
        assert (
            page.evaluate(SOCKET, f"{session.base.replace('http', 'ws', 1)}api/events/subscribe") == "closed"
        )


SOCKET = """async (address) => {
    const socket = new WebSocket(address);
    return new Promise((told) => {
        socket.onopen = () => told("open");
        socket.onclose = () => told("closed");
    });
}"""


def test_it_ends_for_a_browser_whose_token_is_taken_back(
    browser: Browser, site: Site, session: Session
) -> None:
    secret = str(site.ask("POST", "/v1/tokens", {"user": "ada", "label": "short"})["secret"])
    with browser.new_context() as visitor:
        page = visitor.new_page()
        page.goto(Session(site, session.job, secret).address())
        page.wait_for_url("**/lab**", timeout=SLOW)
        (digest,) = [one["digest"] for one in site.ask("GET", "/v1/tokens") if one["label"] == "short"]
        site.ask("DELETE", f"/v1/tokens/{digest}")
        answer = page.goto(f"{session.base}lab")
        assert answer is not None
        assert answer.status == 401
