"""A real server on pretended GPUs, and Debian's browser that looks at it as people do.

`page` fails a test that left an error in the browser's console, broke the pages' own policy, or asked
anything of anybody but the server.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

from tests.browser.visiting import FLAGS, PATIENCE, SignIn, Site, Watch, chromium, served, signed_in

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """Not for longer than a module: while it lives, nothing else here can run an event loop of its own."""
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    path = chromium()
    if path is None:
        pytest.skip("needs chromium")
    launched = playwright.chromium.launch(executable_path=path, args=FLAGS)
    yield launched
    launched.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One server a module, as `grus up` starts it: two nodes of four pretended GPUs."""
    yield from served(tmp_path_factory.mktemp("site"), "2x4x16GB")


@pytest.fixture
def watch(site: Site) -> Watch:
    return Watch(site.address)


@pytest.fixture
def context(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    """A visitor: cookies of its own. Times are read in UTC, so that tests need not guess."""
    made = browser.new_context(
        base_url=site.address, viewport={"width": 1280, "height": 900}, timezone_id="UTC", locale="en-GB"
    )
    made.set_default_timeout(PATIENCE)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext, watch: Watch) -> Iterator[Page]:
    opened = context.new_page()
    watch.over(opened)
    yield opened
    opened.close()
    assert watch.found == []


@pytest.fixture
def sign_in(page: Page, site: Site) -> SignIn:
    """Signs the visitor in without the form, as the administrator if no token is given, and opens `at`."""

    def signed(token: str = "", at: str = "/") -> None:
        signed_in(page, site, token, at)

    return signed
