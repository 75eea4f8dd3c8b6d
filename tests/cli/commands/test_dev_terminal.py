"""The terminal of a session: its keys and its end."""

import os
from dataclasses import dataclass, field

import pytest

from grus.cli.commands import dev_terminal


@dataclass
class Shell:
    """A shell that drops input until its third piece, then ends."""

    ended: int
    sent: list[bytes] = field(default_factory=list)

    def send(self, data: bytes) -> None:
        self.sent.append(data)
        if len(self.sent) == 3:
            os.write(self.ended, b"!")


def test_the_end_of_input_is_sent_until_the_shell_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev_terminal, "REPEAT_S", 0.01)
    stop, ended = os.pipe()
    shell = Shell(ended)
    dev_terminal._send_end(shell, stop)  # type: ignore[arg-type]  # a stand-in
    assert shell.sent == [b"\x04"] * 3
    os.close(stop)
    os.close(ended)
