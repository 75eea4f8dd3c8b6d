"""The page of people and queues: everything that its forms and buttons promise happens, and nothing else."""

import re

from playwright.sync_api import Browser, Page, expect

from tests.browser.visiting import SignIn, Site, Watch


def test_a_user_is_added_changed_and_deleted(page: Page, site: Site, sign_in: SignIn) -> None:
    sign_in(at="/admin")
    page.get_by_role("button", name="Add a user").click()
    form = page.get_by_role("dialog", name="User")
    form.get_by_label("Name").fill("grace")
    form.get_by_label("Role").select_option("viewer")
    form.get_by_role("button", name="Save").click()
    row = page.locator("#users tr", has_text="grace")
    expect(row).to_contain_text("viewer")
    row.get_by_role("button", name="Change grace").click()
    expect(form.get_by_label("Name")).to_have_value("grace")
    form.get_by_label("Role").select_option("member")
    form.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("member")
    row.get_by_role("button", name="Delete grace").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(row).to_be_visible()
    row.get_by_role("button", name="Delete grace").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    assert [user["name"] for user in site.ask("GET", "/v1/users")].count("grace") == 0


def test_a_new_token_is_shown_once_and_opens_the_pages_for_its_user(
    page: Page, browser: Browser, site: Site, sign_in: SignIn
) -> None:
    site.person("ben")
    sign_in(at="/admin")
    page.get_by_role("button", name="New token").click()
    form = page.get_by_role("dialog", name="New token")
    form.get_by_label("User").select_option("ben")
    form.get_by_label("Label").fill("phone")
    form.get_by_role("button", name="Make it").click()
    shown = page.get_by_role("dialog", name="The new token")
    secret = shown.locator(".secret").inner_text()
    assert re.fullmatch(r"grus_[A-Za-z0-9_-]{43}", secret)
    shown.get_by_role("button", name="Done").click()
    expect(page.locator("#tokens tr", has_text="phone")).to_contain_text("ben")
    assert secret not in page.content()
    with browser.new_context(base_url=site.address) as visitor:
        other = visitor.new_page()
        other.goto("/sign-in?next=/admin")
        other.get_by_label("Your token").fill(secret)
        other.get_by_role("button", name="Sign in").click()
        expect(other.get_by_role("heading", name="Your tokens")).to_be_visible()
        expect(other.locator("#users, #queues")).to_have_count(0)
        page.locator("#tokens tr", has_text="phone").get_by_role(
            "button", name=re.compile("Take back")
        ).click()
        page.get_by_role("dialog").get_by_role("button", name="Take back").click()
        expect(page.locator("#tokens tr", has_text="phone")).to_have_count(0)
        other.reload()
        expect(other).to_have_url(re.compile("/sign-in"))


def test_a_queue_is_made_with_every_mistake_named_then_changed_and_deleted(
    page: Page, site: Site, sign_in: SignIn, watch: Watch
) -> None:
    watch.allow("422")
    watch.allow("400")
    sign_in(at="/admin")
    page.get_by_role("button", name="Add a queue").click()
    form = page.get_by_role("dialog", name="Queue")
    form.get_by_label("Name").fill("vision")
    form.get_by_label("Quota", exact=True).fill("many")
    form.get_by_label("Weight").fill("0")
    form.get_by_role("button", name="Save").click()
    told = form.get_by_role("alert")
    expect(told).to_contain_text("quota")
    expect(told).to_contain_text("weight")
    expect(form.get_by_label("Quota", exact=True)).to_have_attribute("aria-invalid", "true")
    form.get_by_label("Quota", exact=True).fill("virtual-16GB: 3, any: 1")
    form.get_by_label("Weight").fill("2")
    for name in ("ada", "ben"):
        site.ask("PUT", f"/v1/users/{name}", {"role": "member"})
    form.get_by_label("Members").fill("ada, ben")
    form.get_by_role("button", name="Save").click()
    row = page.locator("#queues tr", has_text="vision")
    expect(row).to_contain_text("any: 1, virtual-16GB: 3")
    idle = {"below": "5%", "for": "10m", "action": "pause"}
    rules = {"quota": 4, "reserved": 1, "members": ["ada"], "idle": idle, "max_priority": 50}
    site.ask("PUT", "/v1/queues/vision", rules)
    page.reload()
    row.get_by_role("button", name="Change vision").click()
    expect(form.get_by_label("Reserved")).to_have_value("1")
    form.get_by_label("Limit").fill("6")
    form.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("6")
    (found,) = [queue for queue in site.ask("GET", "/v1/queues") if queue["name"] == "vision"]
    kept = {name: found[name] for name in ("quota", "reserved", "limit", "members", "max_priority", "idle")}
    assert kept == {**rules, "limit": 6}
    row.get_by_role("button", name="Delete vision").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)


def test_the_default_queue_is_changed_but_for_its_quota(page: Page, site: Site, sign_in: SignIn) -> None:
    sign_in(at="/admin")
    row = page.locator("#queues tr", has_text="default")
    row.get_by_role("button", name="Change default").click()
    form = page.get_by_role("dialog", name="Queue")
    expect(form.get_by_label("Quota", exact=True)).not_to_be_editable()
    form.get_by_label("Weight").fill("3")
    form.get_by_role("button", name="Save").click()
    expect(row.locator("[data-label=Weight]")).to_have_text("3")
    (found,) = [queue for queue in site.ask("GET", "/v1/queues") if queue["name"] == "default"]
    assert found["weight"] == 3
    page.get_by_role("button", name="Add a queue").click()
    expect(form.get_by_label("Quota", exact=True)).to_be_editable()


def test_what_the_server_refuses_is_said_where_it_was_asked(
    page: Page, site: Site, sign_in: SignIn, watch: Watch
) -> None:
    watch.allow("409")
    sign_in(at="/admin")
    page.locator("#users tr", has_text="you").get_by_role("button", name=re.compile("Delete")).click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("#toasts")).to_contain_text("only administrator")
