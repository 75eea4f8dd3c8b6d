"""The installed command in a home of its own, against a real server; what it starts, it ends."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LONGEST = 60.0


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

    def __call__(
        self, *words: str, code: int | None = 0, input: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [sys.executable, "-m", "grus.cli.main", *words],
            env=self.env,
            cwd=self.work,
            input=input,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
        assert code is None or done.returncode == code, (
            f"{words} returned {done.returncode}: {done.stdout}{done.stderr}"
        )
        assert "Traceback" not in done.stderr
        return done

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "-o", "json").stdout)

    def configure(self, text: str) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "config.toml").write_text(text)

    def down(self) -> None:
        """End everything, whatever state it is in."""
        self("down", "--jobs", code=None)
