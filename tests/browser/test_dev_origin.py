"""What a script in a notebook can do: nothing with the rights of a dashboard's user in the same browser.

Tried where each session has a host name of its own, and where it shares the dashboard's, and so its cookies;
under the sessions' own policy, and, as if there were none, against the gate alone.
"""

import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.sessions import PRETENDED, Session, a_session
from tests.browser.visiting import Site, served
from tests.cli.real import RealGrus


@pytest.fixture(scope="module", params=["own name", "shared name"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("site")
    if request.param == "shared name":
        RealGrus(home).configure('[server]\ndev_host = "127.0.0.1"\n')
    yield from served(home, "1x2x16GB")


@pytest.fixture(scope="module")
def session(site: Site) -> Iterator[Session]:
    with a_session(site, site.token, PRETENDED) as found:
        yield found


@pytest.fixture(params=[False, True], ids=["with its policy", "without a policy"])
def visitor(request: pytest.FixtureRequest, browser: Browser, site: Site) -> Iterator[BrowserContext]:
    """An administrator who is signed in to the dashboard."""
    with browser.new_context(base_url=site.address, bypass_csp=request.param) as made:
        signed = made.request.post(
            "/sign-in", form={"token": site.token}, headers={"Origin": site.address}, max_redirects=0
        )
        assert signed.status == 303
        yield made


@pytest.fixture
def notebook(visitor: BrowserContext, session: Session) -> Page:
    """A page of the session: what runs in it is what a notebook's script could be."""
    page = visitor.new_page()
    page.goto(session.address())
    page.wait_for_url("**/lab")
    return page


def seen(page: Page) -> dict[str, str]:
    """The headers that reached the session."""
    found: dict[str, str] = json.loads(page.locator("#seen").text_content() or "")
    return found


def still_signed_in(visitor: BrowserContext, site: Site) -> bool:
    asked = visitor.request.get(f"{site.address}/v1/status")
    return asked.ok and asked.json()["user"] == "admin"


def test_the_session_sees_no_cookie_and_no_token_of_grus(notebook: Page, session: Session) -> None:
    notebook.reload()
    headers = seen(notebook)
    assert "grus" not in headers.get("cookie", "")
    assert "own=1" in headers["cookie"]
    assert session.token not in json.dumps(headers)
    assert notebook.evaluate("document.cookie").count("grus") == 0


def test_the_session_can_set_cookies_for_nothing_but_itself(
    notebook: Page, visitor: BrowserContext, site: Site, session: Session
) -> None:
    cookies = {cookie["name"]: cookie for cookie in visitor.cookies()}
    assert cookies["grus_session"]["value"] != "forged"
    assert cookies["own"]["path"] == f"/dev/{session.job}/"
    assert cookies["own"]["domain"] == urlsplit(session.origin).hostname
    assert still_signed_in(visitor, site)


ASKING: tuple[dict[str, object], ...] = (
    {},
    {"credentials": "include"},
    {"credentials": "include", "mode": "no-cors"},
    {"credentials": "include", "headers": {"Authorization": "Bearer x"}},
)


def test_a_script_reads_nothing_of_the_api_which_does_not_even_answer(notebook: Page, site: Site) -> None:
    answered: list[int] = []
    wire = notebook.context.new_cdp_session(notebook)
    wire.on("Network.responseReceivedExtraInfo", lambda got: answered.append(got["statusCode"]))
    wire.send("Network.enable")  # what came over the wire, whatever the browser then gives to the script
    for options in ASKING:
        told = notebook.evaluate(
            """async ([address, options]) => {
                try { return await (await fetch(address + "/v1/users", options)).text(); }
                catch (error) { return "refused"; }
            }""",
            [site.address, options],
        )
        assert told in ("refused", ""), options
    assert set(answered) <= {401, 403}


def test_what_a_script_posts_changes_nothing(notebook: Page, visitor: BrowserContext, site: Site) -> None:
    for path in ("/v1/jobs", "/sign-out", "/v1/users/mallory", "/sign-in/codes"):
        _posts_in_vain(notebook, visitor, site, path)


def _posts_in_vain(notebook: Page, visitor: BrowserContext, site: Site, path: str) -> None:
    jobs = len(site.ask("GET", "/v1/jobs"))
    notebook.evaluate(
        """([address]) => {
            const form = document.createElement("form");
            form.method = "POST"; form.action = address; form.enctype = "text/plain";
            form.target = "elsewhere";
            const field = document.createElement("input");
            field.name = '{"run": "true", "name": "forged", "x": "'; field.value = '"}';
            form.append(field); document.body.append(form);
            const frame = document.createElement("iframe"); frame.name = "elsewhere";
            document.body.append(frame); form.submit();
            return new Promise((done) => { frame.onload = done; setTimeout(done, 500); });
        }""",
        [site.address + path],
    )
    for method in ("POST", "PUT", "DELETE"):
        notebook.evaluate(
            """([address, method]) => fetch(address, {method, credentials: "include", body: "{}"})
                .then(() => "sent", () => "refused")""",
            [site.address + path, method],
        )
    assert len(site.ask("GET", "/v1/jobs")) == jobs
    assert "mallory" not in json.dumps(site.ask("GET", "/v1/users"))
    assert still_signed_in(visitor, site)


def test_a_script_opens_no_web_socket_and_no_stream_with_the_users_rights(notebook: Page, site: Site) -> None:
    told = notebook.evaluate(
        """async ([address]) => {
            const socket = new Promise((done) => {
                try {
                    const made = new WebSocket(address.replace("http", "ws") + "/v1/events");
                    made.onopen = () => done("open"); made.onclose = made.onerror = () => done("refused");
                } catch (error) { done("refused"); }
            });
            const stream = new Promise((done) => {
                const made = new EventSource(address + "/v1/events", {withCredentials: true});
                made.onopen = () => done("open");
                made.onerror = () => { made.close(); done("refused"); };
            });
            const silence = new Promise((done) => setTimeout(done, 3000, "silent"));
            return [await Promise.race([socket, silence]), await Promise.race([stream, silence])];
        }""",
        [site.address],
    )
    assert "open" not in told


def test_a_script_cannot_look_into_a_page_of_the_dashboard(notebook: Page, site: Site) -> None:
    told = notebook.evaluate(
        """async ([address]) => {
            const frame = document.createElement("iframe");
            frame.src = address + "/admin";
            const loaded = new Promise((done) => { frame.onload = done; setTimeout(done, 1500); });
            document.body.append(frame);
            await loaded;
            let inside = "refused";
            try { inside = frame.contentWindow.document.body.textContent; } catch (error) { /* good */ }
            const opened = window.open(address + "/admin");
            let other = "refused";
            try { if (opened) other = opened.document.body.textContent; } catch (error) { /* good */ }
            return [inside, other];
        }""",
        [site.address],
    )
    assert "Your tokens" not in json.dumps(told)


def test_a_cookie_that_a_script_adds_makes_nobody_somebody_else(
    notebook: Page, visitor: BrowserContext, site: Site
) -> None:
    """It may at worst sign the user out: of two sessions none counts."""
    notebook.evaluate("document.cookie = 'grus_session=forged; path=/v1/status'")
    asked = visitor.request.get(f"{site.address}/v1/status")
    assert asked.status == 401 or asked.json()["user"] == "admin"
