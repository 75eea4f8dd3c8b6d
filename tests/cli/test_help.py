"""Help: every verb has one with examples, and it is quick because nothing heavy is loaded."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from grus.cli.main import app
from tests.cli.conftest import Grus


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


def test_completion_offers_ids_and_names_and_stays_silent_without_a_server(
    grus: Grus, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grus.cli.connection import complete_job
    from grus.model.errors import Unreachable
    from tests.cli.fake import a_job

    client.known = [a_job("j0000000001"), a_job("j0000000002", name="bert", phase="failed")]
    assert [word for word, _ in complete_job("")] == ["j0000000001", "j0000000002", "resnet"]
    assert [word for word, _ in complete_job("res")] == ["resnet"]
    client.error = Unreachable("away")
    assert complete_job("") == []
