"""Help: every verb has one with examples, and it is quick because nothing heavy is loaded."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from grus.cli.main import app
from tests.cli.conftest import Grus

HEAVY = ("fastapi", "httpx2", "numpy", "pydantic", "uvicorn", "yaml", "psutil")
QUICK = 0.3


def verbs(group: Any = None, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from verbs(command, (*before, name))
        else:
            yield (*before, name)


@pytest.mark.parametrize("verb", list(verbs()), ids=" ".join)
def test_every_verb_has_help_with_examples_and_json_output(grus: Grus, verb: tuple[str, ...]) -> None:
    result = grus(*verb, "--help")
    assert result.exit_code == 0
    assert "Examples:" in result.stdout
    assert "grus " + " ".join(verb) in result.stdout
    assert "--output" in result.stdout


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; sys.argv = ['grus', '--help']\n"
        "from grus.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"sys.stderr.write(' '.join(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "submit" in done.stdout


@pytest.mark.serial
def test_help_takes_three_tenths_of_a_second_at_most(tmp_path: Path) -> None:
    """Of a core: that is what it takes, however busy the others keep the machine."""
    # What Python compiled is kept, as it is for people, wherever this suite runs and whatever it was told.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env = {**kept, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    words = [sys.executable, "-m", "grus.cli.main", "--help"]

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(words, env=env, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    once()  # the first one may compile
    assert min(once() for _ in range(5)) <= QUICK


def test_completion_offers_ids_and_names_and_stays_silent_without_a_server(
    grus: Grus, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grus.cli.access import complete_job
    from grus.model.errors import Unreachable
    from tests.cli.fake import a_job

    client.known = [a_job("j0000000001"), a_job("j0000000002", name="bert", phase="failed")]
    assert [word for word, _ in complete_job("")] == ["j0000000001", "j0000000002", "resnet"]
    assert [word for word, _ in complete_job("res")] == ["resnet"]
    client.error = Unreachable("away")
    assert complete_job("") == []
