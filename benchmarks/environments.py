"""Packages that are too large, or too far from Grus, for its environment: each in one of its own, cached."""

import os
import subprocess
import venv
from pathlib import Path


def python_with(requirement: str) -> Path:
    """The interpreter of an environment with `requirement` (`name==version`), made at the first call.

    In the user's cache; what a broken-off call left is made anew. Raises RuntimeError where it cannot be had.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "grus")
    home = cache / requirement.replace("==", "-")
    python = home / "bin" / "python"
    if not (home / "installed").exists():
        print(f"installing {requirement} into {home}", flush=True)
        venv.create(home, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "-q", requirement]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{requirement} cannot be installed: {done.stderr.strip()[-300:]}")
        (home / "installed").touch()
    return python
