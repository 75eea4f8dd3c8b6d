"""Values of trials in commands, read by real shells and programs."""

import subprocess

import pytest

from grus.api.inputs.argument_placeholders import fill
from tests.api.inputs.test_argument_placeholders import rules

HOSTILE = (
    "a b",
    "it's",
    '"',
    "$(echo out)",
    "`echo out`",
    "; echo out",
    "*",
    "\\",
    "two\nlines",
    "",
    "-n",
    "ä{lr}",
)


SHOW = r"printf '<%s>'"


def printed(argv: tuple[str, ...]) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True, env={"HOME": "h"}).stdout


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("shell", ["/bin/sh", "bash"])
def test_a_value_is_one_argument_of_a_shell_line(shell: str, value: str) -> None:
    argv = (shell, "-c", f"{SHOW} --name={{kind}} {{kind}} # don't")
    assert rules(list(argv), kind=(value,)) == []
    assert printed(fill(argv, (("kind", value),))) == f"<--name={value}><{value}>"


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_is_one_argument_of_a_list(value: str) -> None:
    argv = ("printf", "<%s>", "{kind}", "x{kind}")
    assert rules(list(argv), kind=(value,)) == []
    assert printed(fill(argv, (("kind", value),))) == f"<{value}><x{value}>"
