"""The History page in a browser: figures, charts, other times and queues, and advice to buy."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.visiting import SignIn, Site, served

SLOW = 60_000
"""Milliseconds for what a busy machine takes long for: reading the script of the charts, and simulating."""
BUSY = "i=0\nwhile [ $i -lt 60000 ]; do i=$((i+1)); done"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server on which a job has run, in a queue of its own."""
    for made in served(tmp_path_factory.mktemp("site"), "2x4x16GB"):
        made.ask("PUT", "/v1/queues/vision", {"quota": 4})
        made.grus("run", "-q", "vision", "--gpu", "2", "--name", "counts", "--", "sh", "-c", BUSY)
        yield made


def test_the_hours_of_a_job_that_ran_are_there_with_their_charts(page: Page, sign_in: SignIn) -> None:
    sign_in(at="/history")
    expect(page.locator("[data-tile=allocated] b")).to_have_text(re.compile(r"^(< )?[\d.]+$"))
    expect(page.locator("#waste tr")).to_have_count(7)
    expect(page.locator("#queues")).to_contain_text("vision")
    expect(page.get_by_role("link", name="counts")).to_be_visible()
    for name in ("use", "parts", "where"):
        expect(page.locator(f"[data-chart={name}] .main-svg").first).to_be_visible(timeout=SLOW)


def test_another_time_and_queue_are_asked_for_and_the_address_remembers_them(
    page: Page, sign_in: SignIn
) -> None:
    sign_in(at="/history")
    expect(page.locator("#jobs a")).to_have_count(1)
    page.get_by_label("Queue", exact=True).select_option("default")
    expect(page.locator("#jobs")).to_contain_text("No jobs yet")
    page.get_by_role("button", name="A month").click()
    expect(page).to_have_url(re.compile(r"/history\?last=30d&queue=default$"))
    page.reload()
    expect(page.get_by_role("button", name="A month")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_label("Queue", exact=True)).to_have_value("default")
    expect(page.locator("#jobs")).to_contain_text("No jobs yet")


def test_the_whole_report_is_a_file_that_can_be_kept(page: Page, sign_in: SignIn) -> None:
    sign_in(at="/history")
    page.get_by_role("button", name="A day").click()
    with page.expect_download(timeout=SLOW) as waiting:
        page.get_by_role("link", name="The whole report as a file").click()
    assert re.fullmatch(r"grus-report-\d{4}-\d\d-\d\d\.html", waiting.value.suggested_filename)
    text = waiting.value.path().read_text()
    assert "last=1d" in waiting.value.url
    assert "counts" in text
    assert "Plotly" in text


def test_whether_to_buy_gpus_is_answered_in_a_sentence(page: Page, sign_in: SignIn) -> None:
    sign_in(at="/history")
    page.get_by_role("button", name="Find out").click()
    expect(page.locator("#advice")).to_contain_text(re.compile("1x4xvirtual-16GB"), timeout=SLOW)
    expect(page.get_by_role("button", name="Find out")).to_be_enabled()


def test_on_a_phone_the_page_does_not_move_sideways(page: Page, sign_in: SignIn) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    sign_in(at="/history")
    expect(page.locator("[data-chart=where] .main-svg").first).to_be_visible(timeout=SLOW)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
