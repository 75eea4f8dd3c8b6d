"""The commands of docs/reports.md do what the page says, in the order of the page."""

import re
import shlex
from pathlib import Path
from typing import Any

import typer.main

from grus.cli.main import app
from tests.cli.real import RealGrus

PAGE = Path(__file__).parents[3] / "docs" / "reports.md"


def test_every_command_of_the_page_works_and_the_last_one_writes_a_page(tmp_path: Path) -> None:
    grus = RealGrus(tmp_path)
    (commands,) = re.findall(
        r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    grus.configure("[server]\nport = 0\n")
    said = ""
    try:
        for line in commands.splitlines():
            _, verb, *words = shlex.split(line)
            if verb == "up":
                grus.up(*words)
            else:
                said += grus(verb, *words).stdout
    finally:
        grus.down()
    assert (grus.work / "report.html").stat().st_size > 4_000_000
    assert "BEFORE AND AFTER" in said


def test_the_page_names_every_option() -> None:
    command: Any = typer.main.get_command(app)
    given = {option for one in command.commands["report"].params for option in one.opts}
    options = {option for option in given if option.startswith("--")} - {"--output"}
    text = PAGE.read_text(encoding="utf-8")
    assert sorted(option for option in options if option not in text) == []
