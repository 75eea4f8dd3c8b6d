"""The page that `grus report --html` writes, in a real browser: everything is drawn, nothing is asked for."""

from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from grus.reports.report_html import page
from tests.reports.test_report_html import EVIL, a_report, drawn

WIDTHS = (1200, 360)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("light", ["light", "dark"])
def test_every_plot_is_drawn_without_an_error_and_without_asking_anybody(
    browser: Browser, tmp_path: Path, width: int, light: str
) -> None:
    script = files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")
    file = tmp_path / "report.html"
    text = page(a_report(EVIL), script)
    file.write_text(text, encoding="utf-8")
    tab = browser.new_page(viewport={"width": width, "height": 900})
    tab.emulate_media(color_scheme="dark" if light == "dark" else "light")
    wrong: list[str] = []
    asked: list[str] = []
    tab.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("request", lambda request: asked.append(request.url.partition(":")[0]))
    tab.goto(file.as_uri())
    tab.wait_for_function(
        "[...document.querySelectorAll('.plot')].every(one => one.querySelector('.main-svg'))"
    )
    assert tab.locator(".plot").count() == len(drawn(text))
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert set(asked) <= {"file", "data"}
    assert wrong == []
    assert tab.locator("img").count() == 0
    tab.close()
