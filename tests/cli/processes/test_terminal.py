"""On a terminal: Ctrl-C asks, `top` is live, tables have colours."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.cli.real import RealGrus
from tests.server.process import eventually

SOON = 30.0
CTRL_C = b"\x03"


class Terminal:
    """A command on a pseudo-terminal: what it wrote, and a keyboard."""

    def __init__(self, grus: RealGrus, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "grus.cli.main", *words],
            env={**grus.env, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"},
            cwd=grus.work,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            # A session whose controlling terminal this is: only then does Ctrl-C reach it.
            preexec_fn=lambda: os.login_tty(theirs),
        )
        os.close(theirs)
        self.text = ""
        self._open = True

    def kill(self) -> None:
        """For a test that failed in the middle."""
        if self._open:
            self.process.kill()
            self.end()

    def read_until(self, words: str) -> None:
        deadline = time.monotonic() + SOON
        while words not in self.text:
            more = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))[0]
            if not more or not self._read() or time.monotonic() > deadline:
                pytest.fail(f"it did not say {words!r}, but {self.text!r}")

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def end(self) -> int:
        """Wait for its end; its exit code."""
        deadline = time.monotonic() + SOON
        while self._read() and time.monotonic() < deadline:
            pass
        os.close(self._ours)
        self._open = False
        return self.process.wait(SOON)

    def _read(self) -> bool:
        try:
            piece = os.read(self._ours, 65536)
        except OSError:  # how Linux says that the other side is closed
            return False
        self.text += piece.decode(errors="replace")
        return bool(piece)


LongRun = Callable[[str], Terminal]


@pytest.fixture(scope="module")
def grus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealGrus]:
    command = RealGrus(tmp_path_factory.mktemp("home"))
    command.up("--virtual", "1x4x16GB", "--port", "0")
    try:
        yield command
    finally:
        command.down()


@pytest.fixture
def on_terminal(grus: RealGrus) -> Iterator[Callable[..., Terminal]]:
    made: list[Terminal] = []

    def start(*words: str) -> Terminal:
        made.append(Terminal(grus, *words))
        return made[-1]

    yield start
    for terminal in made:
        terminal.kill()


@pytest.fixture
def a_long_run(on_terminal: Callable[..., Terminal]) -> LongRun:
    def run(name: str) -> Terminal:
        script = "echo begun; sleep 600"
        terminal = on_terminal("run", "--name", name, "--grace", "1s", "--", "sh", "-c", script)
        terminal.read_until("begun\r\n")
        return terminal

    return run


def test_ctrl_c_asks_and_s_stops_the_job(grus: RealGrus, a_long_run: LongRun) -> None:
    terminal = a_long_run("stopped-run")
    terminal.press(CTRL_C)
    terminal.read_until("[s]top it")
    terminal.press(b"s\n")
    assert terminal.end() == 143
    assert grus.json("describe", "stopped-run")["job"]["phase"] == "stopped"


def test_ctrl_c_asks_and_d_leaves_the_job_to_itself(grus: RealGrus, a_long_run: LongRun) -> None:
    terminal = a_long_run("left-run")
    terminal.press(CTRL_C)
    terminal.read_until("[s]top it")
    terminal.press(b"d\n")
    assert terminal.end() == 130
    assert grus.json("describe", "left-run")["job"]["phase"] == "running"
    grus("stop", "left-run", "--wait")


def test_after_c_watching_goes_on_where_it_was_and_two_ctrl_c_leave_the_job(
    grus: RealGrus, a_long_run: LongRun
) -> None:
    terminal = a_long_run("watched-run")
    terminal.press(CTRL_C)
    terminal.read_until("[s]top it")
    terminal.press(b"c\n")
    terminal.read_until("watching goes on")
    terminal.text = ""
    terminal.press(CTRL_C)
    terminal.read_until("[s]top it")
    terminal.press(CTRL_C)
    assert terminal.end() == 130
    assert "begun" not in terminal.text
    assert grus.json("describe", "watched-run")["job"]["phase"] == "running"
    grus("stop", "watched-run", "--wait")


def test_ctrl_c_asks_and_s_stops_all_watched_stages(
    grus: RealGrus, on_terminal: Callable[..., Terminal]
) -> None:
    stage = "{run: echo begun; sleep 600, resources: {gpu: 0}, checkpoint: {grace: 1s}"
    stages = f"  one: {stage}}}\n  two: {stage}, after: [one]}}\n"
    (grus.work / "stages.yaml").write_text(f"stages:\n{stages}")
    terminal = on_terminal("submit", "stages.yaml", "--watch")
    terminal.read_until("[one] begun\r\n")
    terminal.press(CTRL_C)
    terminal.read_until("this submission (2 jobs) is still there")
    terminal.press(b"s\n")
    assert terminal.end() == 143
    phases = [grus.json("describe", name)["job"]["phase"] for name in ("one", "two")]
    assert phases == ["stopped", "stopped"]


def test_pausing_a_job_without_a_checkpoint_asks_on_a_terminal(
    grus: RealGrus, on_terminal: Callable[..., Terminal]
) -> None:
    grus("run", "-d", "-n", "unsaved", "--gpu", "0", "--grace", "1s", "--", "sleep", "600")
    eventually(lambda: grus.json("describe", "unsaved")["job"]["phase"] == "running", "it runs")
    for answer, code, phase in ((b"n\n", 1, "running"), (b"y\n", 0, "paused")):
        terminal = on_terminal("pause", "unsaved", "--wait")
        terminal.read_until("has no checkpoint")
        terminal.read_until("Pause it?")
        terminal.press(answer)
        assert terminal.end() == code
        assert grus.json("describe", "unsaved")["job"]["phase"] == phase
    grus("stop", "unsaved")


def test_top_is_live_until_ctrl_c(grus: RealGrus, on_terminal: Callable[..., Terminal]) -> None:
    terminal = on_terminal("top", "--every", "0.1")
    terminal.read_until("node-0")
    grus("run", "-d", "--name", "newcomer", "--", "sleep", "600")
    terminal.read_until("newcomer")
    terminal.press(CTRL_C)
    assert terminal.end() == 0
    grus("stop", "newcomer", "--wait")


def test_tables_have_colours_unless_no_color_is_set(
    on_terminal: Callable[..., Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = on_terminal("queue")
    terminal.end()
    assert "\x1b[" in terminal.text
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = on_terminal("status")
    terminal.end()
    assert "\x1b[3" not in terminal.text


def test_a_simulation_shows_how_far_it_is_and_leaves_only_the_answer(
    on_terminal: Callable[..., Terminal],
) -> None:
    terminal = on_terminal("simulate", "--synthetic", "days=2,jobs=40", "--nodes", "1x8xA100")
    assert terminal.end() == 0
    assert "simulating" in terminal.text
    assert "completion, mean" in terminal.text.rpartition("simulating")[2]
