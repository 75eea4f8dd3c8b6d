"""The Jobs page with 5,000 jobs: found in a moment, kept in the address, changed many at once."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from grus.dashboard.mounting import mount
from grus.model.interfaces import User
from grus.model.jobs import Phase
from tests.browser.visiting import SignIn, Site, Watch
from tests.cli.real import RealGrus
from tests.dashboard.large import World, built, served

GPUS, JOBS = 1000, 5000


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with built(tmp_path_factory.mktemp("large"), gpus=GPUS, jobs=JOBS) as made:
        yield made


@pytest.fixture(scope="module")
def site(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(world, mount) as address:
        yield Site(RealGrus(tmp_path_factory.mktemp("unused")), address, "admin-token")


def test_one_of_5000_jobs_is_found_by_typing_and_the_address_remembers_it(
    page: Page, sign_in: SignIn, world: World
) -> None:
    sign_in(at="/jobs")
    expect(page.locator("#total")).to_have_text(f"{JOBS} of {JOBS}")
    expect(page.locator("#rows tr")).to_have_count(100)
    page.keyboard.press("/")
    page.keyboard.type("j-002345")
    expect(page.locator("#total")).to_have_text(f"1 of {JOBS}")
    expect(page.locator("#rows tr")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"/jobs\?q=j-002345$"))
    page.reload()
    expect(page.get_by_role("searchbox", name="Filter")).to_have_value("j-002345")
    expect(page.locator("#rows tr")).to_have_count(1)
    page.get_by_role("searchbox", name="Filter").fill("nothing is called so")
    expect(page.locator("#no-match")).to_be_visible()
    expect(page.locator("#rows tr")).to_have_count(0)
    page.get_by_role("button", name="Show all").click()
    expect(page.locator("#total")).to_have_text(f"{JOBS} of {JOBS}")
    expect(page).to_have_url(re.compile(r"/jobs$"))


def test_filters_find_what_a_straightforward_search_finds(page: Page, sign_in: SignIn, world: World) -> None:
    jobs = [job for some in world.services.jobs.every() for job in some]
    meant = [
        job for job in jobs if job.user == "ada" and job.spec.queue == "vision" and job.phase is Phase.FAILED
    ]
    assert 0 < len(meant) < 100
    sign_in(at="/jobs")
    page.get_by_label("User").select_option("ada")
    page.get_by_label("Queue").select_option("vision")
    page.locator('[data-state="failed"]').click()
    expect(page.locator("#total")).to_have_text(f"{len(meant)} of {JOBS}")
    expect(page.locator("#rows tr")).to_have_count(len(meant))
    shown = page.locator("#rows tr").evaluate_all("lines => lines.map(line => line.dataset.id)")
    assert set(shown) == {job.id for job in meant}
    expect(page.locator('[data-state="failed"]')).to_have_attribute("aria-pressed", "true")


def test_a_click_on_a_heading_sorts_and_another_one_turns_the_order(page: Page, sign_in: SignIn) -> None:
    sign_in(at="/jobs")
    heading = page.get_by_role("columnheader", name="GPUs")
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "descending")
    expect(page).to_have_url(re.compile(r"sort=gpus&order=down"))
    expect(page.locator("#rows tr [data-of=gpus]").first).to_have_text("4")
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "ascending")
    expect(page.locator("#rows tr [data-of=gpus]").first).to_have_text("0.25")


def test_the_list_grows_as_one_scrolls(page: Page, sign_in: SignIn) -> None:
    sign_in(at="/jobs")
    expect(page.locator("#rows tr")).to_have_count(100)
    page.locator("#more").scroll_into_view_if_needed()
    expect(page.locator("#rows tr:nth-child(101)")).to_be_attached()
    ids = page.locator("#rows tr").evaluate_all("lines => lines.map(line => line.dataset.id)")
    assert len(ids) == len(set(ids)) >= 200


def test_a_line_changes_by_itself_when_its_job_does(page: Page, sign_in: SignIn, world: World) -> None:
    job = world.running()[0].id
    sign_in(at=f"/jobs?q={job}")
    badge = page.locator("#rows [data-of=status]")
    expect(badge).to_have_text("running")
    world.finish(job)
    expect(badge).to_have_text("succeeded")
    expect(badge).to_have_class(re.compile("badge-succeeded"))


def test_many_are_paused_resumed_and_stopped_at_once_after_a_question_with_an_answer_each(
    page: Page, sign_in: SignIn, world: World
) -> None:
    chosen = [job.id for job in world.running()[5:8]]
    name = world.services.visible.get(_admin(world), chosen[0]).spec.name
    sign_in(at="/jobs")
    page.goto("/jobs?state=running&state=paused&state=pending&rows=2000")
    for job in chosen:
        page.locator(f'#rows tr[data-id="{job}"] input').check()
    expect(page.locator("#picked")).to_have_text("3 selected")
    for verb, done, after in (
        ("Pause", "3 asked to pause (of 3)", "paused"),
        ("Resume", "3 resumed (of 3)", None),
        ("Stop", "3 asked to stop (of 3)", "stopped"),
    ):
        for job in chosen:
            page.locator(f'#rows tr[data-id="{job}"] input').check()
        page.locator("#bulk").get_by_role("button", name=verb).click()
        question = page.get_by_role("dialog", name=f"{verb} 3 jobs?")
        expect(question).to_contain_text(name)
        question.get_by_role("button", name=verb).click()
        expect(page.locator("#answers-title")).to_have_text(done)
        expect(page.locator("#answers-rows tr")).to_have_count(3)
        page.locator("#answers").get_by_role("button", name="Close").click()
        expect(page.locator("#bulk")).to_be_hidden()
        if after == "paused":
            for job in chosen:
                expect(page.locator(f'#rows tr[data-id="{job}"] [data-of=status]')).to_have_text(after)
    phases = [world.services.visible.get(_admin(world), job).desired.value for job in chosen]
    assert phases == ["stop"] * 3


def test_lines_are_walked_and_picked_by_keys(page: Page, sign_in: SignIn) -> None:
    sign_in(at="/jobs?state=succeeded")
    second = page.locator("#rows tr").nth(1)
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(second.locator("a")).to_be_focused()
    page.keyboard.press("x")
    expect(page.locator("#picked")).to_have_text("1 selected")
    expect(second).to_have_attribute("aria-selected", "true")
    page.keyboard.press("k")
    expect(page.locator("#rows tr").first.locator("a")).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_contain_text("Select the line")


def test_saying_no_changes_nothing(page: Page, sign_in: SignIn, world: World) -> None:
    job = world.running()[10].id
    sign_in(at=f"/jobs?q={job}")
    page.locator("#rows input").check()
    page.locator("#bulk").get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert world.services.visible.get(_admin(world), job).desired.value == "run"


def test_one_that_refuses_does_not_hold_up_the_others(
    page: Page, sign_in: SignIn, world: World, watch: Watch
) -> None:
    own = next(job.id for job in world.running() if job.user == "ada")
    other = next(job.id for job in world.running() if job.user == "ben")
    watch.allow("403")
    sign_in("ada-token", at="/jobs")
    page.goto("/jobs?state=running&rows=2000")
    for job in (own, other):
        page.locator(f'#rows tr[data-id="{job}"] input').check()
    page.locator("#bulk").get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(page.locator("#answers-title")).to_have_text("1 asked to stop, 1 refused (of 2)")
    expect(page.locator(f'#answers-rows tr[data-id="{other}"]')).to_contain_text(
        "only ben or an administrator"
    )
    expect(page.locator("#picked")).to_have_text("1 selected")


def test_all_that_match_can_be_chosen_without_scrolling(page: Page, sign_in: SignIn, world: World) -> None:
    sign_in(at="/jobs?state=succeeded")
    page.locator("#all").check()
    expect(page.locator("#picked")).to_have_text("100 selected")
    page.locator("#everything").click()
    expect(page.locator("#picked")).to_have_text("2000 selected")
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#bulk")).to_be_hidden()


def test_a_viewer_sees_the_list_and_why_nothing_can_be_stopped(page: Page, sign_in: SignIn) -> None:
    sign_in("vic-token", at="/jobs")
    page.locator("#rows input").first.check()
    stop = page.locator("#bulk").get_by_role("button", name="Stop")
    expect(stop).to_be_disabled()
    expect(stop).to_have_attribute("title", "A viewer may not stop jobs")


def test_at_phone_width_lines_become_cards_and_nothing_scrolls_sideways(page: Page, sign_in: SignIn) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    sign_in(at="/jobs")
    expect(page.locator("#rows tr")).to_have_count(100)
    wide = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide[0] <= wide[1]
    expect(page.locator("#rows tr").first.locator("[data-of=name]")).to_be_visible()


def _admin(world: World) -> User:
    return world.services.accounts.whoami("admin-token")
