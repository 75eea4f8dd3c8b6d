"""The pool with 1,000 GPUs: seen whole, searched, and kept up to date one tile at a time; and the queues."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from grus.model.identifiers import JobId
from grus.model.jobs import Job
from grus.model.resources import GPU
from tests.browser.visiting import SignIn, Site
from tests.cli.real import RealGrus
from tests.dashboard.large import World, built, served

GPUS = 1000


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with built(tmp_path_factory.mktemp("large"), gpus=GPUS, jobs=2000) as made:
        yield made


@pytest.fixture(scope="module")
def site(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(world) as address:
        yield Site(RealGrus(tmp_path_factory.mktemp("unused")), address, "admin-token")


def whole(world: World, gpus: int = 1) -> Job:
    """A running job that has so many GPUs for itself."""
    return next(
        job
        for job in world.running()
        if job.held == gpus * GPU and all(seat.share == GPU for seat in job.seats)
    )


def tiles_of(page: Page, job: JobId) -> Locator:
    return page.locator(f'.gpu:has(a[href="/jobs/{job}"])')


def test_every_gpu_is_a_tile_and_troubles_are_told_by_signs(
    page: Page, sign_in: SignIn, world: World
) -> None:
    sign_in()
    expect(page.locator(".gpu")).to_have_count(GPUS)
    expect(page.locator('[data-sum="gpus"]')).to_have_text("1,000")
    broken = sum(not device.usable for node in world.loop.picture.nodes for device in node.devices)
    assert broken > 5
    expect(page.locator(".gpu[data-sign]")).to_have_count(broken)


def test_a_click_on_a_tile_opens_its_job(page: Page, sign_in: SignIn, world: World) -> None:
    job = whole(world)
    sign_in()
    tiles_of(page, job.id).locator("a").first.click()
    expect(page).to_have_url(re.compile(f"/jobs/{job.id}$"))


def test_when_a_job_ends_its_tiles_change_and_the_others_are_not_touched(
    page: Page, sign_in: SignIn, world: World
) -> None:
    job, other = whole(world, 4), whole(world, 2)
    sign_in()
    expect(tiles_of(page, job.id)).to_have_count(4)
    kept = tiles_of(page, other.id).first.locator("a").element_handle()
    world.finish(job.id)
    expect(tiles_of(page, job.id)).to_have_count(0)
    assert kept.evaluate("one => one.isConnected")


def test_what_gpus_measure_moves_their_tiles(page: Page, sign_in: SignIn, world: World) -> None:
    sign_in()
    classes = "[...document.querySelectorAll('.gpu')].slice(0, 200).map(one => one.className).join()"
    before = page.evaluate(classes)
    world.measure()
    page.wait_for_function(f"before => {classes} !== before", arg=before)


def test_the_filter_finds_people_nodes_and_jobs_and_the_address_keeps_it(
    page: Page, sign_in: SignIn, world: World
) -> None:
    job = whole(world, 2)
    sign_in()
    page.keyboard.press("/")
    page.keyboard.type(job.spec.name)
    expect(page.locator("#shown")).to_have_text("2 GPUs match")
    expect(page.locator(".gpu:not(.dim)")).to_have_count(2)
    expect(page).to_have_url(re.compile(f"q={job.spec.name}"))
    page.reload()
    expect(page.locator("#filter")).to_have_value(job.spec.name)
    expect(page.locator(".gpu:not(.dim)")).to_have_count(2)
    page.locator("#filter").fill("")
    expect(page.locator(".gpu.dim")).to_have_count(0)
    expect(page.locator(".node.none")).to_have_count(0)


def test_only_mine_and_one_type_can_be_shown_together(page: Page, sign_in: SignIn, world: World) -> None:
    types = {device.id: device.type for node in world.loop.picture.nodes for device in node.devices}
    mine = {
        device
        for job in world.running()
        if job.user == "ada"
        for seat in job.seats
        for device in seat.devices
        if types[device] == "A100"
    }
    assert mine
    sign_in("ada-token")
    page.get_by_role("button", name="mine").click()
    page.get_by_role("button", name=re.compile("^A100")).click()
    shown = page.locator(".gpu:not(.dim)").evaluate_all("all => all.map(one => one.dataset.id)")
    assert set(shown) == mine


def test_the_card_of_a_gpu_says_who_is_on_it(page: Page, sign_in: SignIn, world: World) -> None:
    job = whole(world)
    sign_in()
    tiles_of(page, job.id).first.hover()
    card = page.get_by_role("tooltip")
    expect(card).to_contain_text(job.spec.name)
    expect(card).to_contain_text(job.user)
    expect(card).to_contain_text(job.seats[0].devices[0])
    expect(card).to_contain_text(" GB")


def test_slices_of_a_gpu_are_links_beside_each_other(page: Page, sign_in: SignIn, world: World) -> None:
    sign_in(at="/?tiles=roomy")
    shared = page.locator(".gpu:has(a + a)").first
    widths = shared.locator("a").evaluate_all("all => all.map(one => one.getBoundingClientRect().width)")
    assert len(widths) > 1
    assert sum(widths) <= shared.evaluate("one => one.clientWidth")
    expect(shared.locator("a").first).to_have_attribute("data-part", re.compile("GPU$"))


def test_arrows_go_from_tile_to_tile_and_enter_opens_the_job(page: Page, sign_in: SignIn) -> None:
    sign_in()
    page.locator("#g0").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#g1")).to_be_focused()
    page.keyboard.press("ArrowDown")
    below = page.evaluate("document.activeElement.getBoundingClientRect().top")
    assert below > page.locator("#g1").evaluate("one => one.getBoundingClientRect().top")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#g1")).to_be_focused()
    expect(page.get_by_role("tooltip")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/jobs/"))


def test_nodes_can_be_put_in_order_of_their_type(page: Page, sign_in: SignIn) -> None:
    sign_in()
    page.get_by_role("link", name="By type").click()
    expect(page.locator("#pool > h2")).to_have_text(["A100 496 GPUs", "H100 200 GPUs", "V100 304 GPUs"])


@pytest.mark.parametrize("tiles", ["roomy", "dense", "tiny"])
def test_the_pool_fits_a_phone_in_every_size(page: Page, sign_in: SignIn, tiles: str) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    sign_in(at=f"/?tiles={tiles}")
    expect(page.locator(".gpu").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width", [390, 1280, 1920])
@pytest.mark.parametrize("tiles", ["roomy", "dense"])
def test_a_tile_shows_the_memory_in_use_uncut(
    page: Page, sign_in: SignIn, world: World, tiles: str, width: int
) -> None:
    world.measure()  # what is measured grows old
    page.set_viewport_size({"width": width, "height": 900})
    sign_in(at=f"/?tiles={tiles}")
    memory = page.locator(".gpu .memory").filter(has_text="/")
    expect(memory.first).to_have_text(re.compile(r"^\d+/\d+ GB$"))
    cut = """all => all.filter(e => e.checkVisibility({contentVisibilityAuto: true}))
        .filter(e => e.scrollWidth > e.clientWidth + 1
            || e.getBoundingClientRect().right > e.parentElement.getBoundingClientRect().right)
        .map(e => e.textContent)"""
    assert memory.evaluate_all(cut) == []


def test_queues_show_their_tree_and_change_with_the_jobs(page: Page, sign_in: SignIn, world: World) -> None:
    sign_in(at="/queues")
    names = page.locator("[data-queue]").evaluate_all("all => all.map(one => one.dataset.queue)")
    assert names == ["default", "product", "serving", "tuning", "research", "speech", "vision"]
    row = page.locator('[data-queue="speech"]')
    before = row.locator('[data-cell="waiting"]').inner_text()
    for job in [one for one in world.running() if one.spec.queue == "speech"][:5]:
        world.finish(job.id)
    expect(row.locator('[data-cell="waiting"]')).not_to_have_text(before)
    assert int(row.locator('[data-bar="held"]').get_attribute("width") or 0) > 0
