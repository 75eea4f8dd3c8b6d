"""Checks of what `grus service install` writes into units: options of `grus up`, and scheduled backups.

Each problem is refused at the installation, with the message that `grus up` or `grus backup` would have.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from grus.cli.server.service_checks import scheduled
from grus.cli.server.systemd_units import Schedule
from grus.model.errors import BadInput, Mistake
from grus.sdk.state_paths import GrusPaths, places

if TYPE_CHECKING:
    from grus.cli.server.daemon_start_stop import UpOptions

NONE = Path("none")
"""Value of `--backups` that removes the scheduled backups."""


def checked_options(options: Sequence[str]) -> list[str]:
    """The options of `grus up` with absolute paths. Raises BadInput where `grus up` would refuse them."""
    from grus.cli.server.daemon_start_stop import arguments, settings_for

    if not options:
        return []
    given = _parsed(options)
    settings_for(places(), given)
    return arguments(given)


def _parsed(options: Sequence[str]) -> "UpOptions":
    """Values of the options of `grus up`, without those that a unit sets or does not need."""
    from grus.cli.main import UsageError
    from grus.cli.server.daemon_start_stop import UpOptions, up

    probe = typer.Typer()
    probe.command()(up)
    parsed = typer.main.get_command(probe)
    try:
        found = parsed.make_context("up", list(options)).params
    except UsageError as error:
        wrong = Mistake("options of `grus up`", error.format_message(), " ".join(options))
        raise BadInput([wrong]) from None
    return UpOptions(**{name: found[name] for name in found.keys() - {"foreground", "output"}})


def schedule(
    units: Path, backups: Path | None, every: str | None, keep: int | None, user: str
) -> Schedule | None:
    """The scheduled backups: those given, else those of the units that are there; None for none.

    Raises BadInput if systemd does not understand the schedule, or the folder cannot hold backups.
    """
    before = None if backups == NONE else scheduled(units)
    folder = before.folder if before and backups is None else backups
    if folder is None or folder == NONE:
        _refuse_without_folder({"--every": every, "--keep": keep})
        return None
    folder = folder.absolute()
    base = replace(before, folder=folder) if before else Schedule(folder)
    found = replace(base, every=base.every if every is None else every, keep=keep or base.keep)
    _check_every(found.every)
    _check_folder(found.folder, user)
    return found


def _refuse_without_folder(given: Mapping[str, object]) -> None:
    rule = "needs scheduled backups: name their folder with --backups FOLDER"
    wrong = [Mistake(name, rule, str(value)) for name, value in given.items() if value is not None]
    if wrong:
        raise BadInput(wrong)


def _check_every(every: str) -> None:
    if not every.strip() or "\n" in every:
        raise BadInput([Mistake("--every", "must be one line, such as daily or Mon 03:00", every)])
    program = shutil.which("systemd-analyze")
    if program is None:
        return
    done = subprocess.run([program, "calendar", "--", every], capture_output=True, text=True, check=False)
    if done.returncode:
        why = next(iter(done.stderr.strip().splitlines()), "")
        rule = f"is no schedule of systemd ({why}); use hourly, daily, weekly or one such as Mon 03:00"
        raise BadInput([Mistake("--every", rule, every)])


def _check_folder(folder: Path, user: str) -> None:
    """Make the folder of the backups, owned by the account that writes them."""
    from grus.server.backup.create import require_outside
    from grus.store.durable_files import make_folder

    require_outside(places(), folder, "--backups")
    new = not folder.exists()
    try:
        make_folder(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
        if new and user:
            os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    except OSError as error:
        rule = f"cannot hold backups: {error.strerror}; name another folder"
        raise BadInput([Mistake("--backups", rule, str(folder))]) from None


def state_of(user: str, environment: Mapping[str, str]) -> Path:
    """State folder of a server with this account and these variables."""
    home = pwd.getpwnam(user).pw_dir if user else str(Path.home())
    defaults = {"XDG_CONFIG_HOME": f"{home}/.config", "XDG_STATE_HOME": f"{home}/.local/state"}
    found: GrusPaths = places({**defaults, **environment})
    return found.state
