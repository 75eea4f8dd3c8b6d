"""What others wrote commands nobody's terminal: escapes are shown, in tables, sentences, JSON and logs."""

import json
from typing import Any

import pytest

from grus.api.wire_types.job import EventOut
from grus.cli.follow import job_logs
from grus.cli.render import output
from grus.cli.render.escape import tamed, tamed_json, tamed_lines, tamed_log
from tests.cli.conftest import Grus
from tests.cli.fake import SUBMITTED, FakeClient, a_job, an_end

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b6n\u202etxt\r\n\x1b[31mroot"
"""Sets a title, clears the screen, asks the terminal to type, turns the line round, forges a line."""
CONTROLS = [chr(code) for code in (*range(9), *range(11, 32), *range(127, 160))] + ["\u202e"]


def commands(text: str) -> list[str]:
    return [one for one in CONTROLS if one in text]


def test_a_line_shows_what_would_command_and_keeps_every_letter() -> None:
    assert tamed("größe\x1b[2J\n\x9b\u202e") == "größe\\x1b[2J\\x0a\\x9b\\u202e"
    assert tamed_lines("a\tb\nc\r\x00") == "a\tb\nc\\x0d\\x00"


def test_json_stays_the_same_json() -> None:
    text = json.dumps({"a": "\x9b6n\x7f größe"}, ensure_ascii=False)
    assert commands(tamed_json(text)) == []
    assert json.loads(tamed_json(text)) == {"a": "\x9b6n\x7f größe"}


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_log_keeps_colours_and_progress_bars_wherever_it_is_cut(cut: int) -> None:
    text = "\x1b[1;31mred\x1b[0m 50%\r\x1b[2K100%\n"
    assert "".join(tamed_log([text[:cut], text[cut:]])) == text
    evil = "\x1b]0;title\x07x\x1b[6ny"
    assert "".join(tamed_log([evil[:cut], evil[cut:]])) == "\\x1b]0;title\\x07x\\x1b[6ny"


def test_an_escape_without_an_end_is_shown_at_the_end() -> None:
    assert "".join(tamed_log(["a\x1b[1"])) == "a\\x1b[1"


@pytest.mark.parametrize(
    "words",
    [("ps",), ("describe", "j0000000001"), ("why", "j0000000001"), ("ps", "-o", "json"), ("top",)],
)
def test_no_verb_passes_a_command_on(grus: Grus, client: FakeClient, words: tuple[str, ...]) -> None:
    told: dict[str, Any] = {"reason": EVIL, "name": EVIL, "queue": EVIL, "user": EVIL, "command": EVIL}
    client.known = [a_job(**told)]
    client.happened = [EventOut(seq=1, at=SUBMITTED, kind=EVIL, text=EVIL, job="j0000000001", attempt=1)]
    done = grus(*words)
    assert done.exit_code == 0, done.output
    assert commands(done.stdout) == []


def test_to_a_terminal_a_log_comes_tamed_and_to_a_pipe_as_it_is(
    grus: Grus, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.known, client.text = [an_end("succeeded", "done", 0)], EVIL
    assert grus("logs", "j0000000001").stdout_bytes == EVIL.encode()
    monkeypatch.setattr(output, "for_people", lambda: True)
    monkeypatch.setattr(job_logs, "for_people", lambda: True)
    shown = grus("logs", "j0000000001").stdout
    assert "\x1b]" not in shown
    assert "\x07" not in shown
    assert "\\x1b]0;owned\\x07" in shown
    assert "\x1b[31mroot" in shown
