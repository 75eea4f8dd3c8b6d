"""What the documentation says is there, is there."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
# Written so that the patterns do not find themselves.
FOREIGN = re.compile(r"/(wor)k/|/(roo)t/|https?://[^ /]*(pypi|pythonh|debian|npmj)")


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


def test_no_file_names_a_path_of_one_machine_or_a_registry() -> None:
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("needs git and a clone: only git knows which files belong to the project")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if FOREIGN.search(line)
    ]
    assert not found


def test_the_readme_shows_commands() -> None:
    assert len(readme_commands()) >= 10


@pytest.mark.parametrize("command", readme_commands())
def test_every_command_of_the_readme_exists_with_its_options(command: str) -> None:
    words = shlex.split(command.split(" -- ")[0])[1:]
    options = [word.split("=")[0] for word in words if word.startswith("-")]
    path = words[:2] if words[0] == "queue" and len(words) > 1 else words[:1]
    shown = subprocess.run(
        [Path(sys.executable).with_name("grus"), *path, "--help"],
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert shown.returncode == 0, shown.stderr
    assert not [option for option in options if option not in shown.stdout]
    files = re.findall(r"\bexamples/\S+", command)
    assert not [file for file in files if not (ROOT / file).is_file()]
