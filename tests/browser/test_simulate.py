"""The Simulate page: asked by the form, answered in sentences, tables and charts; it can be stopped."""

from playwright.sync_api import Page, expect

from tests.browser.visiting import SignIn, Site, Watch

ANSWER = 60_000
"""Milliseconds: a simulation works, and the browser beside it."""


def ask(page: Page, *, days: str = "0.5", jobs: str = "30", add: str = "", seeds: str = "1") -> None:
    page.get_by_label("Made-up jobs of a team").check()
    page.get_by_label("Days").fill(days)
    page.get_by_label("Jobs a day").fill(jobs)
    page.get_by_label("Possible worlds").fill(seeds)
    page.get_by_label("Add nodes").fill(add)
    page.get_by_role("button", name="Simulate", exact=True).click()


def test_should_we_buy_is_answered_in_a_sentence_a_table_and_charts(page: Page, sign_in: SignIn) -> None:
    sign_in(at="/simulate")
    expect(page.locator("#nothing")).to_be_visible()
    ask(page, add="1x4xA100")
    sentence = page.locator("#sentences > p").first
    expect(sentence).to_contain_text("buy", timeout=ANSWER)
    expect(sentence).to_contain_text("with 1x4xA100 more")
    figures = page.get_by_role("table").first
    expect(figures.get_by_role("columnheader")).to_have_text(["", "present", "what if", "static split"])
    expect(figures.get_by_role("row", name="GPUs")).to_contain_text("12")
    expect(page.locator("#charts .drawn")).to_have_count(5)
    expect(page.locator("#under-way")).to_be_hidden()
    page.reload()  # what was answered is still there
    expect(page.locator("#sentences > p").first).to_contain_text("with 1x4xA100 more")


def test_all_that_is_wrong_with_the_question_is_told(page: Page, sign_in: SignIn, watch: Watch) -> None:
    watch.allow("422")  # the browser notes every refusal that it hears
    sign_in(at="/simulate")
    page.get_by_label("A node fails every").fill("soon")
    ask(page, add="many")
    trouble = page.get_by_role("alert")
    expect(trouble).to_contain_text("add-nodes")
    expect(trouble).to_contain_text("faults")
    expect(page.get_by_role("button", name="Simulate", exact=True)).to_be_enabled()


def test_a_long_simulation_shows_how_far_it_is_and_can_be_stopped(page: Page, sign_in: SignIn) -> None:
    sign_in(at="/simulate")
    ask(page, days="30", jobs="150", seeds="2")
    expect(page.locator("#how-far")).to_contain_text("simulated jobs have ended", timeout=ANSWER)
    expect(page.get_by_role("button", name="Simulate", exact=True)).to_be_disabled()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Stopped: admin stopped it.")
    expect(page.get_by_role("button", name="Simulate", exact=True)).to_be_enabled()


def test_the_history_of_this_pool_can_be_asked_about(page: Page, sign_in: SignIn, site: Site) -> None:
    body = {"name": "past", "run": "true", "workdir": "/", "resources": {"gpu": 1}}
    for _ in range(3):
        site.ask("POST", "/v1/jobs", body)
    sign_in(at="/jobs")
    page.goto("/jobs?q=past&state=succeeded")
    expect(page.locator("#rows tr")).to_have_count(3)
    page.goto("/simulate")
    page.get_by_label("This pool's history").check()
    expect(page.get_by_label("Jobs a day")).to_be_hidden()
    page.get_by_label("Times the load").fill("2")
    page.get_by_label("Possible worlds").fill("1")
    page.get_by_role("button", name="Simulate", exact=True).click()
    expect(page.locator("#answer-title")).to_contain_text(
        "jobs of the history on this pool (8 GPUs)", timeout=ANSWER
    )
    expect(page.locator("#sentences > p").first).to_contain_text("At 2 times the load")


def test_quotas_and_nodes_can_be_others(page: Page, sign_in: SignIn, site: Site) -> None:
    site.ask("PUT", "/v1/queues/vision", {"quota": 4})
    site.ask("PUT", "/v1/queues/speech", {"quota": 2})
    sign_in(at="/simulate")
    page.get_by_text("Quotas", exact=True).click()
    expect(page.get_by_label("vision")).to_have_attribute("placeholder", "4")
    page.get_by_label("vision").fill("5")
    page.get_by_label("Policy").select_option("fifo")
    ask(page)
    sentence = page.locator("#sentences > p").first
    expect(sentence).to_contain_text("quota vision=5", timeout=ANSWER)
    expect(sentence).to_contain_text("quota default=1")  # what the others leave of eight
    expect(sentence).to_contain_text("under the policy fifo")
    page.get_by_label("vision").fill("")
    page.get_by_label("Policy").select_option("")
    page.get_by_label("Without these nodes").select_option("node-1")
    ask(page)
    expect(sentence).to_contain_text("Without node-1", timeout=ANSWER)
    for name in ("vision", "speech"):
        site.ask("DELETE", f"/v1/queues/{name}")


def test_at_phone_width_nothing_scrolls_sideways(page: Page, sign_in: SignIn) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    sign_in(at="/simulate")
    ask(page)
    expect(page.locator("#answer")).to_be_visible(timeout=ANSWER)
    expect(page.locator("#charts .drawn").first).to_be_visible()
    wide = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide[0] <= wide[1]
