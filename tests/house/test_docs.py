"""What the documentation says is there, is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
MODULE = re.compile(r"`((?:\w+/)+\w+\.py)`")
"""Path of a module on a page; NAME stands for any name."""
MODULES = [
    one.as_posix()
    for folder in ("src", "tests", "tools", "benchmarks", "examples", "docs")
    for one in Path(ROOT, folder).rglob("*.py")
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)


def prose(page: Path) -> str:
    """The page without its fenced blocks, which may hold brackets of their own."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def readme_commands() -> list[str]:
    blocks = FENCE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    lines = [line for language, block in blocks if language == "sh" for line in block.splitlines()]
    return [line for line in lines if line.startswith("grus ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    links = [link.split("#")[0] for link in LINK.findall(prose(page)) if "://" not in link]
    missing = [link for link in links if link and not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_module_on_a_page_exists(page: Path) -> None:
    named = [name for name in MODULE.findall(prose(page)) if "NAME" not in name]
    missing = [name for name in named if not any(module.endswith(f"/{name}") for module in MODULES)]
    assert not missing


def test_the_readme_shows_commands() -> None:
    assert len(readme_commands()) >= 10
