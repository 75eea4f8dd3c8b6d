"""Wrapper's reports to Grus, through the worker's report: the stored outputs, or the reason for a failure.

Only the last line of a report counts, and it has the job's own values too: they are preserved.
"""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from grus.model.artifacts import Artifact

_REACH = 16 << 10
"""Bytes that are read from the end: a longer line is ignored by every reader."""


def tell_kept(kept: Sequence[Artifact]) -> None:
    """All of them at once."""
    _tell({"artefacts": [[one.name, one.digest, one.size] for one in kept]})


def tell_trouble(sentence: str) -> None:
    _tell({"trouble": sentence})


def rank_zero(environment: "os._Environ[str]" = os.environ) -> bool:
    """Return whether this worker is the first of its worker group, by its latest orders."""
    team = _control(environment.get("GRUS_CONTROL", "")).get("team")
    if isinstance(team, dict):
        return team.get("me") == 0
    return environment.get("GRUS_WORKER", "0") == "0"


def _control(path: str) -> dict[str, object]:
    with suppress(OSError, ValueError):
        found = json.loads(Path(path).read_bytes())
        return found if isinstance(found, dict) else {}
    return {}


def _tell(news: dict[str, object]) -> None:
    path = os.environ.get("GRUS_REPORT")
    if not path:
        return
    line = json.dumps({**_last(Path(path)), **news}).encode() + b"\n"
    if len(line) >= _REACH:
        line = json.dumps(news).encode() + b"\n"
    with open(path, "ab", buffering=0) as file:
        # A last line of the job's own that was cut off by its death must not swallow this one.
        file.write(line if _ends_whole(Path(path)) else b"\n" + line)
    _ring()


def _last(path: Path) -> dict[str, object]:
    """The job's own last whole line."""
    with suppress(OSError, ValueError, IndexError, RecursionError):
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _REACH))
            found = json.loads(file.read().split(b"\n")[-2])
        return found if isinstance(found, dict) else {}
    return {}


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        if not path.stat().st_size:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _ring() -> None:
    """Have it read now."""
    with suppress(OSError, KeyError):
        bell = os.open(os.environ["GRUS_BELL"], os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(bell, b"!")
        finally:
            os.close(bell)
