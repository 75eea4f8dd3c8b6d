"""Command of a development session as its worker runs it. Pure.

A job names the program as `python3 -m grus.interactive.session lab|shell`. The server runs it with an
interpreter and the source of its own, like the program around a stage, so that the user's environment needs
no Grus. The named `python3` is the user's: it runs JupyterLab.
"""

from pathlib import PurePath

from grus.controlplane.workers.interpreters import Runner

MODULE = "grus.interactive.session"


def is_session(argv: tuple[str, ...]) -> bool:
    """True if a job's command is the program of a session."""
    return len(argv) == 4 and argv[1:3] == ("-m", MODULE) and "python" in PurePath(argv[0]).name


def command(runner: Runner, argv: tuple[str, ...]) -> tuple[str, ...]:
    """The same session without anything of the user's environment."""
    python, kind = argv[0], argv[3]
    return tuple(runner.module(MODULE, kind, python))
