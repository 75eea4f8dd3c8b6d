"""The commands of docs/comparison.md do what the page says, with environments that run nothing."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grus.cli.main import app
from grus.compare import backends
from tests.compare.fake import FakeDriver

PAGE = Path(__file__).parents[3] / "docs" / "comparison.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_command_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    monkeypatch.setattr(backends, "of", lambda environment: FakeDriver(environment, log))
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    (job,) = [text for kind, text in blocks if kind == "yaml"]
    Path("job.yaml").write_text(job)
    commands = [line for kind, text in blocks if kind == "sh" for line in text.splitlines()]
    assert len(commands) >= 5
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "grus"
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, f"{command}: {done.output}"
        assert done.stdout
    assert len(log) == 2 * 5 + 2 * 5 * 2 + 2 * 5
    assert sorted(one.name for one in Path().iterdir()) == [
        "biggan-comparison",
        "job.yaml",
        "noise",
        "platforms",
        "platforms.html",
    ]
