"""The commands of docs/simulation.md do what the page says, in the order of the page, on the page's files."""

import re
import shlex
from pathlib import Path
from typing import Any

import typer.main

from grus.cli.main import app
from tests.cli.processes.test_docs import EXIT
from tests.cli.real import RealGrus

PAGE = Path(__file__).parents[3] / "docs" / "simulation.md"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[tuple[str, str]]:
    """Title and text of the page's blocks of a kind."""
    return [(title, text) for found, title, text in BLOCK.findall(PAGE.read_text()) if found == kind]


def test_every_command_of_the_page_returns_what_it_says(tmp_path: Path) -> None:
    grus = RealGrus(tmp_path)
    (config,) = (text for title, text in blocks("toml") if not title)
    grus.configure(f"{config}port = 0\n")
    for title, text in blocks("csv") + [(title, text) for title, text in blocks("toml") if title]:
        (grus.work / title).write_text(text)
    said = ""
    try:
        for line in (line for _, text in blocks("sh") for line in text.splitlines()):
            code = EXIT.search(line)
            _, verb, *words = shlex.split(EXIT.sub("", line).replace("$GRUS_HOME", str(tmp_path)))
            if verb == "up":
                grus.up(*words)
            else:
                done = grus(verb, *words, code=int(code[1]) if code else 0)
                said += done.stdout + done.stderr
    finally:
        grus.down()
    assert (grus.work / "out.html").stat().st_size > 4_000_000
    assert "decisions, all equal" in said
    errors = next(text for _, text in blocks("text") if text.startswith("error"))
    assert errors in said


def test_the_page_names_every_option() -> None:
    command: Any = typer.main.get_command(app)
    given = {option for one in command.commands["simulate"].params for option in one.opts}
    options = {option for option in given if option.startswith("--")} - {"--output", "--static"}
    text = PAGE.read_text()
    assert sorted(option for option in options if option not in text) == []
