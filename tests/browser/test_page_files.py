"""Pages that are one file: opened from the disk they draw their plots, and ask nobody for anything."""

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from benchmarks.recorded_traces import report, traces
from grus.compare import comparison_verdict, report_tables
from grus.compare.html_report import Sheet, page
from tests.browser.visiting import Watch
from tests.compare.made import a_comparison, a_record, a_run, a_side

HOSTILE = "<img src=x onerror=alert(1)>"


def compared(_: Path) -> Sheet:
    sides = [
        a_side(label, *[a_run(label, n, a_record(step_seconds=0.5 + n / 100)) for n in (1, 2, 3)])
        for label in ("local", HOSTILE)
    ]
    return report_tables.sheet(comparison_verdict.report(a_comparison(*sides, repeats=3)))


def traced(folder: Path) -> Sheet:
    for place, use in (("a", 30), (HOSTILE.replace("/", ""), 90)):
        cpu = [f"01:00:{n:02} PM,{n},10,5,85" for n in range(30)]
        gpu = [f"{n},{use},{use // 2}" for n in range(30)]
        header = "time,id,%user,%system,%idle"
        (folder / f"cpu-{place}.csv").write_text("\n".join([header, *cpu]) + "\n")
        (folder / f"gpu-{place}.csv").write_text("\n".join(["id,gpu0,mem0", *gpu]) + "\n")
    return report.sheet(traces.read(folder))


@pytest.mark.parametrize("made", [compared, traced])
@pytest.mark.parametrize("width", [1280, 360])
def test_a_page_from_the_disk_draws_its_plots_and_asks_nobody(
    browser: Browser, tmp_path: Path, made: Callable[[Path], Sheet], width: int
) -> None:
    sheet = made(tmp_path)
    script = files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")
    file = tmp_path / "page.html"
    file.write_text(page(sheet, script), encoding="utf-8")
    watch = Watch(tmp_path.as_uri())
    context = browser.new_context(viewport={"width": width, "height": 900})
    opened = context.new_page()
    watch.over(opened)
    try:
        opened.goto(file.as_uri())
        expect(opened.locator(".plot .main-svg").first).to_be_visible()
        assert opened.locator(".plot:has(.main-svg)").count() == len(sheet.plots)
        expect(opened.get_by_role("heading", name=sheet.sections[0].heading)).to_be_visible()
        wide = opened.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, "only tables scroll sideways, in their own box"
        assert opened.locator("img").count() == 0
    finally:
        context.close()
    assert watch.found == []
