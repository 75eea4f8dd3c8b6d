"""The commands of docs/team-server.md work in the order of the page and print what it shows."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.real import RealGrus

PAGE = Path(__file__).parents[3] / "docs" / "team-server.md"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BACKUP = "/var/backups/grus/grus-20261118T150711Z"


@pytest.fixture
def grus(tmp_path: Path) -> Iterator[RealGrus]:
    command = RealGrus(tmp_path / "home")
    command.configure('[server]\nport = 0\nshared_account = true\npool = "virtual 2x4x16GB"\n')
    yield command
    command.down()


def words_of(text: str) -> str:
    """The text with one space between words and one line break between lines."""
    return "".join(" ".join(line.split()) + "\n" for line in text.splitlines() if line.strip())


def pattern(lines: list[str]) -> str:
    """Regular expression of a block: `…` is any text in its line, and any lines where it stands alone."""
    shown = words_of("\n".join(lines)).splitlines()
    return "".join(
        r"(?:.*\n)*?"
        if line == "…"
        else r".*".join(re.escape(piece.strip()) for piece in line.split("…")) + r"\n"
        for line in shown
    )


class Page:
    """Runs the page's commands with this machine's names in place of those of the page."""

    def __init__(self, grus: RealGrus) -> None:
        self._grus = grus
        self._backups = grus.home / "backups"
        self._units = grus.home / "units"

    def here(self, text: str) -> str:
        newest = sorted(self._backups.glob("grus-*"))
        text = text.replace(BACKUP, str(newest[-1]) if newest else str(self._backups))
        text = text.replace("/var/backups/grus", str(self._backups)).replace("gpu.lab", "localhost")
        text = text.replace("/etc/systemd/system", str(self._units))
        text = re.sub(r" --unix-user \w+", "", text)  # this machine may not have these accounts
        return re.sub(r":7600\b", f":{self._port()}", text)

    def _port(self) -> str:
        told = self._grus.home / "state" / "listen.json"
        return re.findall(r'"port": (\d+)', told.read_text())[0] if told.exists() else "7600"

    def run(self, line: str) -> str:
        """Output of a command; those of pip, systemd and the shell itself are left out."""
        program, *words = shlex.split(self.here(line), comments=True)
        if program == "openssl":
            subprocess.run([program, *words], check=True, capture_output=True, cwd=self._grus.work)
        if program == "systemctl" and words[-1] == "grus":  # this machine may have no systemd
            if words[0] in ("stop", "restart"):
                self._grus("down")
            if words[0] in ("start", "restart"):
                self._grus.up()
        if program != "grus":
            return ""
        if words[:2] == ["service", "install"] or words[:2] == ["service", "status"]:
            words = [*words[:2], "--units", str(self._units), *words[2:]]
        if words[0] == "up":
            return self._grus.up(*words[1:])
        done = self._grus(*words, code=None if words[0] == "doctor" else 0, PATH=os.environ["PATH"])
        if words[:2] == ["service", "install"]:
            self._grus.up()  # systemd would start it
        return done.stdout + done.stderr


def test_every_command_of_the_page_prints_what_the_page_shows(grus: RealGrus) -> None:
    page, said, wrong = Page(grus), "", list[str]()
    for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "sh":
            said = "".join(page.run(line) for line in text.splitlines())
            continue
        # Of localhost, no line for other machines is printed.
        lines = [line for line in page.here(text).splitlines() if "other machines" not in line]
        if not re.fullmatch(pattern(lines), words_of(said)):
            wrong.append(f"page:\n{text}\nprinted:\n{said}")
    assert not wrong, "\n".join(wrong)
