"""The installed command in a home of its own, against a real server; what it starts, it ends."""

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from grus.cli.main import app

LONGEST = 240.0


@dataclass(frozen=True)
class RealGrus:
    """Runs `grus` with GRUS_HOME in the folder; jobs run in its `work` folder."""

    home: Path

    @property
    def work(self) -> Path:
        folder = self.home / "work"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GRUS_")}
        return {**kept, "GRUS_HOME": str(self.home)}

    def up(self, *words: str, code: int = 0) -> str:
        """Start the server, as a process that outlives the one that started it; returns what was said."""
        command = [sys.executable, "-m", "grus.cli.main", "up", *words]
        done = subprocess.run(
            command, env=self.env, cwd=self.work, capture_output=True, text=True, timeout=LONGEST, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def __call__(self, *words: str, code: int | None = 0, input: str = "", **env: str) -> Result:
        """Any other verb, in this process: that saves half a second of imports each."""
        others = dict.fromkeys(name for name in os.environ if name.startswith("GRUS_"))
        surroundings = {**others, "GRUS_HOME": str(self.home), **env}
        with contextlib.chdir(self.work):
            done = CliRunner().invoke(app, list(words), input=input, env=surroundings, prog_name="grus")
        told = f"{words} returned {done.exit_code}: {done.stdout}{done.stderr}"
        assert done.exception is None or isinstance(done.exception, SystemExit), told
        assert code is None or done.exit_code == code, told
        return done

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "-o", "json").stdout)

    def configure(self, text: str) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "config.toml").write_text(text)

    def down(self) -> None:
        """End everything, whatever state it is in."""
        self("down", "--jobs", code=None)
