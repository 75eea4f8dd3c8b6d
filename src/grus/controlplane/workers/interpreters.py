"""Runners: interpreter and code of Grus's own processes beside a job: around stages, in sessions, on
artifacts.

They belong to the user of the job. The server's own Python may lie in a folder that the user cannot access.
Then any other Python that the user may run will do: the code uses only the standard library, and a copy of it
lies in a folder that every user can read.
"""

import hashlib
import os
import pwd
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import grus

OPTIONS = ("-I", "-S", "-X", "utf8")
"""Options without site-packages and without the job's environment: small, quick, and always the same."""
SOURCE = Path(grus.__file__).resolve().parent
_MODEL = ("__init__", "artifacts", "errors", "identifiers")
_SDK = ("__init__", "sigterm", "worker")
CODE = (
    "__init__.py",
    "artifacts/*.py",
    "interactive/**/*",
    *(f"model/{name}.py" for name in _MODEL),
    *(f"sdk/{name}.py" for name in _SDK),
)
"""Modules of Grus that these processes import."""
PLACES = ("/usr/bin", "/usr/local/bin")
NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 11))"
PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Runner:
    """Command that starts a module of Grus whose `main` takes words."""

    python: tuple[str, ...]
    source: str
    """The folder that holds the package `grus`."""

    def module(self, name: str, *arguments: str) -> list[str]:
        code = f"import sys; sys.path.insert(0, sys.argv.pop(1)); from {name} import main; "
        return [*self.python, "-c", f"{code}sys.exit(main(*sys.argv[1:]))", self.source, *arguments]


def own() -> Runner:
    """Return the runner for processes of the server's own user."""
    return Runner((sys.executable, *OPTIONS), str(SOURCE.parent))


def for_user(unix_user: str, state: Path) -> Runner | None:
    """Return the runner for processes of another user; None if there is no Python that they may run. Raises
    KeyError.
    """
    account = pwd.getpwnam(unix_user)
    found = next((one for one in _interpreters() if _runs(one, account)), None)
    return None if found is None else Runner((found, *OPTIONS), str(_published(state)))


def _interpreters() -> list[str]:
    names = [f"python3.{minor}" for minor in range(sys.version_info.minor, 10, -1)]
    found = [shutil.which(name, path=place) for place in PLACES for name in (*names, "python3")]
    return [sys.executable, *(path for path in found if path is not None)]


def _runs(python: str, account: pwd.struct_passwd) -> bool:
    try:
        done = subprocess.run(
            [python, *OPTIONS, "-c", NEW_ENOUGH],
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
            env={},
            cwd="/",
            capture_output=True,
            check=False,
            timeout=PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _published(state: Path) -> Path:
    """A copy of the code that everybody may read, one for each version of it."""
    files = sorted(path for pattern in CODE for path in SOURCE.glob(pattern) if _is_source(path))
    content = hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:16]
    top = state / f"stage-{content}"
    if top.exists():
        return top
    fresh = state / f".stage-{content}.{os.getpid()}"
    shutil.rmtree(fresh, ignore_errors=True)
    for path in files:
        copy = fresh / "grus" / path.relative_to(SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
        copy.chmod(0o644)
    for folder in (fresh, *(path for path in fresh.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    fresh.rename(top)
    return top


def _is_source(path: Path) -> bool:
    return path.is_file() and path.parent.name != "__pycache__"
