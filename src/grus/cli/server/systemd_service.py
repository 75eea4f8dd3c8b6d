"""The verbs for a server as a systemd service: write its units, remove them, show them.

As root they are units of the system, else of the user's own systemd. Nothing is started unless asked.
"""

import getpass
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli.render.output import Format, Output, emit, examples, fields, hint
from grus.cli.server.systemd_units import BACKUP, SERVER, TIMER
from grus.model.errors import BadInput, Conflict, GrusError, Mistake, NotFound
from grus.sdk.state_paths import places

if TYPE_CHECKING:
    from grus.cli.server.systemd_units import Schedule, Service

PANEL = "Server"
SYSTEM = Path("/etc/systemd/system")
PASSED = ("GRUS_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "PATH")
"""Variables that decide where the state is, and where jobs find programs."""

service = typer.Typer(help="Run the server as a systemd service.", rich_markup_mode="rich")

Folder = Annotated[
    Path | None, typer.Option("--units", help="Folder of the units, if not systemd's own.", metavar="FOLDER")
]


def add_to(app: typer.Typer) -> None:
    app.add_typer(service, name="service", rich_help_panel=PANEL)


def unit_folder() -> Path:
    """Folder where systemd looks for units: root's, or the user's own."""
    if os.geteuid() == 0:
        return SYSTEM
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "systemd" / "user"


@service.command(
    "install",
    epilog=examples(
        "grus service install --backups /backups/grus --now",
        "grus service install -- --host gpu.lab --tls-cert /etc/grus/tls.crt --tls-key /etc/grus/tls.key",
    ),
)
def install(
    options: Annotated[
        list[str] | None, typer.Argument(help="Options of `grus up`, after --.", metavar="[-- OPTION...]")
    ] = None,
    user: Annotated[str, typer.Option(help="Account of the server; mine by default.")] = "",
    backups: Annotated[
        Path | None,
        typer.Option(
            help="Folder for scheduled backups with logs; none removes them.", metavar="FOLDER|none"
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(help="When: hourly, daily (the default), or another OnCalendar of systemd."),
    ] = None,
    keep: Annotated[int | None, typer.Option(help="Backups that stay; 14 by default.", min=1)] = None,
    folder: Folder = None,
    now: Annotated[bool, typer.Option("--now", help="Enable and start it at once.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Write the systemd units of the server.

    Scheduled backups of an earlier installation stay unless `--backups` names another folder or none.
    """
    from grus.cli.server.service_options import checked_options, schedule
    from grus.cli.server.systemd_units import units

    where = (folder or unit_folder()).absolute()
    account = _account(user)
    checked = checked_options(options or [])
    _check_state(account)
    if now:
        _refuse_with_server()
    wanted = _wanted(checked, account, schedule(where, backups, every, keep, account))
    _refuse_other_state(where, wanted)
    texts = units(wanted)
    for name, text in texts.items():
        _put(where / name, text)
    removed = _end_backups(where, folder) if backups is not None and wanted.backups is None else []
    commands = _commands(texts, system=bool(wanted.user))
    if now:
        for line in commands:
            _run(line)
    left = [] if now else [" ".join(line) for line in commands]
    written = [str(where / name) for name in texts]
    told = {"units": written, "removed": removed, "started": now, "next": left}
    emit(told, output, lambda: _show_installed(written, removed, wanted))
    _warn_of_closed_state(wanted)
    if left:
        hint("next: " + " · ".join(left))


@service.command("uninstall", epilog=examples("grus service uninstall"))
def uninstall(folder: Folder = None, output: Output = Format.TABLE) -> None:
    """Stop and remove the service; jobs and state stay."""
    where = (folder or unit_folder()).absolute()
    there = [name for name in (TIMER, BACKUP, SERVER) if (where / name).exists()]
    if not there:
        raise NotFound(f"There is no {SERVER} in {where}.")
    if folder is None and has_systemd():
        for name in (name for name in there if name != BACKUP):
            _run(["systemctl", *scope(), "disable", "--now", name])
    _remove(where, there)
    emit({"removed": there}, output, lambda: fields((("removed", ", ".join(there)), ("from", str(where)))))


@service.command("status", epilog=examples("grus service status", "grus service status -o json"))
def status(folder: Folder = None, output: Output = Format.TABLE) -> None:
    """Show the service, its units and its backups."""
    from grus.cli.server.service_checks import facts

    where = (folder or unit_folder()).absolute()
    if not (where / SERVER).exists():
        raise NotFound(f"There is no {SERVER} in {where}. `grus service install` writes it.")
    found = facts(where)
    emit(found, output, lambda: fields(found.items()))


def _account(user: str) -> str:
    """Account of the server; "" in a unit of a user's own systemd."""
    root = os.geteuid() == 0
    if user and not root:
        rule = "only root can install a service of another account; run this as root, or without --user"
        raise BadInput([Mistake("--user", rule, user)])
    return _known(user or getpass.getuser()) if root else ""


def _wanted(options: list[str], account: str, backups: "Schedule | None") -> "Service":
    from grus.cli.server.systemd_units import Service

    given = {name: os.environ[name] for name in PASSED if os.environ.get(name)}
    found = Service(python=sys.executable, user=account, environment=given, options=options)
    if backups is None:
        return found
    return replace(found, backups=backups.folder, every=backups.every, keep=backups.keep)


def _end_backups(where: Path, folder: Path | None) -> list[str]:
    """Stop and remove the units of scheduled backups; their names. The backups stay."""
    there = [name for name in (TIMER, BACKUP) if (where / name).exists()]
    if TIMER in there and folder is None and has_systemd():
        _run(["systemctl", *scope(), "disable", "--now", TIMER])
    _remove(where, there)
    return there


def _warn_of_closed_state(wanted: "Service") -> None:
    from grus.cli.server.service_options import state_of
    from grus.store.durable_files import closed_folder

    if wanted.user != "root":
        return
    if (closed := closed_folder(state_of(wanted.user, wanted.environment))) is not None:
        hint(
            f"warning: jobs of other accounts cannot pass {closed}; set GRUS_HOME to a folder that they can "
            "pass, such as /var/lib/grus, and install again (sudo drops it: sudo GRUS_HOME=FOLDER grus …)"
        )


def _known(user: str) -> str:
    import pwd

    try:
        return pwd.getpwnam(user).pw_name
    except KeyError:
        rule = f"is no account of this machine; make it first: useradd --system --create-home {user}"
        raise BadInput([Mistake("--user", rule, user)]) from None


def _check_state(user: str) -> None:
    """Raises BadInput if the account could not write the state that is there."""
    import pwd

    state = places().state
    if not user or not state.exists() or user == "root":
        return
    if state.stat().st_uid != pwd.getpwnam(user).pw_uid:
        rule = f"does not own the state {state}; give it to that account: chown -R {user}: {state.parent}"
        raise BadInput([Mistake("--user", rule, user)])


def _refuse_other_state(where: Path, wanted: "Service") -> None:
    """Raise Conflict if the units there run the server of another state: it would not start any more."""
    from grus.cli.server.service_checks import installed_state
    from grus.cli.server.service_options import state_of

    there, state = installed_state(where), state_of(wanted.user, wanted.environment)
    if there is not None and there != state:
        raise Conflict(
            f"{where / SERVER} runs the server of {there}, not of {state}. Remove it first with "
            "`grus service uninstall` (its jobs and backups stay), or set GRUS_HOME to that server's folder."
        )


def _refuse_with_server() -> None:
    from grus.cli.server.background_process import is_running

    if (server := is_running(places())) is not None:
        raise Conflict(
            f"A server runs already (pid {server.pid}). End it with `grus down`, then start the service; "
            "jobs go on."
        )


def _put(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o644)
    except OSError as error:
        raise GrusError(
            f"{file} cannot be written: {error.strerror}. Name another folder with --units."
        ) from None


def _remove(folder: Path, names: Sequence[str]) -> None:
    """Remove units, and the links that `systemctl enable` made to them."""
    for name in names:
        for file in (folder / name, *folder.glob(f"*.wants/{name}")):
            file.unlink(missing_ok=True)


def scope() -> list[str]:
    """Option of systemctl for the systemd that the units belong to."""
    return [] if os.geteuid() == 0 else ["--user"]


def _commands(texts: dict[str, str], *, system: bool) -> list[list[str]]:
    """Commands that start the units."""
    started = [name for name in (SERVER, TIMER) if name in texts]
    found = [["systemctl", *scope(), "daemon-reload"], ["systemctl", *scope(), "enable", "--now", *started]]
    return found if system else [*found, ["loginctl", "enable-linger"]]


def has_systemd() -> bool:
    """True if systemd runs this machine."""
    return shutil.which("systemctl") is not None and Path("/run/systemd/system").is_dir()


def _run(line: list[str]) -> None:
    if not has_systemd():
        raise GrusError(f"systemd does not run this machine, so `{' '.join(line)}` cannot be done.")
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GrusError(f"`{' '.join(line)}` failed ({done.returncode}): {done.stderr.strip()}")


def _show_installed(written: list[str], removed: list[str], wanted: "Service") -> None:
    from grus.cli.server.service_options import state_of

    fields(
        (
            *(("unit", path) for path in written),
            ("removed", ", ".join(removed)),
            ("state", str(state_of(wanted.user, wanted.environment))),
            ("account", wanted.user or getpass.getuser()),
            (
                "backups",
                f"{wanted.every}, the newest {wanted.keep} in {wanted.backups}" if wanted.backups else "none",
            ),
            ("log", "journalctl -u grus, and server.log in the state (rotated at 10 MB, 5 kept)"),
        )
    )
