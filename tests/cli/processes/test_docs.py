"""The commands of docs/cli.md do what the page says, in the order of the page."""

import re
import shlex
from pathlib import Path

from tests.cli.real import RealGrus

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXIT = re.compile(r"\s+# exit (\d+)$")


def steps() -> list[tuple[str, str, int]]:
    """Files to write (name, text, -1) and commands to run ("", command, exit code)."""
    found = []
    for kind, text in BLOCK.findall(PAGE.read_text()):
        if kind == "yaml":
            name = text.splitlines()[0].removeprefix("# ").strip()
            found.append((name, text, -1))
        elif kind == "sh":
            for line in text.splitlines():
                code = EXIT.search(line)
                found.append(("", EXIT.sub("", line), int(code[1]) if code else 0))
    return found


def test_every_command_of_the_page_returns_what_it_says(tmp_path: Path) -> None:
    grus = RealGrus(tmp_path)
    grus.configure("[server]\nport = 0\nshared_account = true\n")  # the page adds a user, also without root
    try:
        for name, text, code in steps():
            if name:
                (grus.work / name).write_text(text)
            else:
                program, verb, *words = shlex.split(text)
                assert program == "grus"
                if verb == "up":
                    grus.up(*words, code=code)
                else:
                    grus(verb, *words, code=code)
    finally:
        grus.down()


def test_the_page_shows_every_verb() -> None:
    from tests.cli.test_help import verbs

    text = PAGE.read_text()
    assert [
        verb for verb in map(" ".join, verbs()) if f"grus {verb}" not in text and f"`{verb}" not in text
    ] == []
