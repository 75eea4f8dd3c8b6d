"""Rules of all pages, read from their sources: text stays text, and colours are legible in both themes."""

import itertools
import re
from pathlib import Path

import pytest

import grus.dashboard

ROOT = Path(grus.dashboard.__file__).parent
TEMPLATES = sorted(ROOT.joinpath("templates").glob("*.html"))
SCRIPTS = sorted(ROOT.joinpath("static").glob("*.js"))
STYLES = sorted(ROOT.joinpath("static").glob("*.css"))
SOURCES = [*TEMPLATES, *SCRIPTS, *STYLES, *sorted(ROOT.rglob("*.py"))]

UNSAFE = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|setHTMLUnsafe|DOMParser"
    r"|\beval\(|new Function|\|\s*safe\b|Markup\(|autoescape\s+false|autoescape=False|javascript:"
)
INLINE = re.compile(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*(src=|type=\"application/json\"))", re.I)
ELSEWHERE = re.compile(r"(src|href|action)=[\"'](https?:)?//|url\(\s*[\"']?(https?:)?//|@import")
PAIR = re.compile(r"^\s*(--[a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);$", re.M)

TEXT_ON = {
    "--text": ("--bg", "--surface", "--raised", "--accent-soft"),
    "--muted": ("--bg", "--surface", "--raised"),
    "--accent": ("--bg", "--surface", "--raised", "--accent-soft"),
    "--on-accent": ("--accent",),
    "--good": ("--surface", "--good-soft"),
    "--wait": ("--surface", "--wait-soft"),
    "--pause": ("--surface", "--pause-soft"),
    "--bad": ("--bg", "--surface", "--bad-soft"),
    "--done": ("--surface", "--done-soft"),
    "--idle": ("--surface", "--idle-soft"),
}
"""Which colour is text on which: at least 4.5 to 1 (WCAG 2.2, AA)."""
SHAPES_ON = {
    "--edge": ("--surface", "--bg"),
    **{f"--chart-{number}": ("--surface", "--bg") for number in range(1, 7)},
    **dict.fromkeys(("--accent", "--good", "--wait", "--bad"), ("--idle-soft",)),
}
"""Edges of fields, lines of charts, bars of meters: at least 3 to 1."""


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.name)
def test_no_page_makes_html_or_a_script_out_of_a_text(file: Path) -> None:
    assert UNSAFE.findall(file.read_text()) == []


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.name)
def test_no_template_has_a_style_or_a_script_in_it(file: Path) -> None:
    assert [found.group(0) for found in INLINE.finditer(file.read_text())] == []


@pytest.mark.parametrize("file", [*TEMPLATES, *SCRIPTS, *STYLES], ids=lambda file: file.name)
def test_no_page_names_another_place_to_load_from(file: Path) -> None:
    assert [found.group(0) for found in ELSEWHERE.finditer(file.read_text())] == []


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.name)
def test_every_attribute_with_a_value_from_outside_is_quoted(file: Path) -> None:
    assert re.findall(r"\s[\w-]+=\{\{", file.read_text()) == []


# ------------------------------------------------------------------------------------------------ colours


def colours() -> dict[str, tuple[str, str]]:
    """Each variable's light and dark value."""
    return {name: (light, dark) for name, light, dark in PAIR.findall((ROOT / "static/grus.css").read_text())}


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_computed_as_the_standard_says() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21.0)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_and_every_shape_stands_out_from_what_is_behind_it(theme: str) -> None:
    known, place = colours(), ["light", "dark"].index(theme)
    weak = [
        f"{front} on {back}: {found:.2f}"
        for pairs, least in ((TEXT_ON, 4.5), (SHAPES_ON, 3.0))
        for front, back in itertools.chain.from_iterable(
            [(front, back) for back in backs] for front, backs in pairs.items()
        )
        if (found := contrast(known[front][place], known[back][place])) < least
    ]
    assert weak == []


@pytest.mark.parametrize("file", STYLES, ids=lambda file: file.name)
def test_colours_are_variables_so_that_both_themes_have_them(file: Path) -> None:
    """A colour that is written where it is used would be the same in the dark."""
    text = re.sub(r"/\*.*?\*/", "", file.read_text(), flags=re.S)
    lines = [line.strip() for line in text.splitlines() if "light-dark(" not in line]
    assert [
        line for line in lines if re.search(r"#[0-9a-f]{3,8}\b(?![^{]*\{)|\brgba?\(|\bhsla?\(", line, re.I)
    ] == []
