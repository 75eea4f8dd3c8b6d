"""The verbs for a state that is to outlive accidents: examine it, back it up, bring it back.

They work on the state folder of this machine, not through a server: `fsck` and `backup` while one runs or
not, `restore` only while none does.
"""

import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli.render.output import Format, Output, emit, examples, fields, hint, say, table
from grus.model.errors import BadInput, Mistake
from grus.model.texts.plural_words import counted
from grus.sdk.state_paths import GrusPaths, places

if TYPE_CHECKING:
    from grus.controlplane.integrity.check import FsckResult
    from grus.controlplane.integrity.orphans import Leftovers
    from grus.model.integrity_findings import Finding
    from grus.server.backup.create import Backup
    from grus.server.backup.restore import RestoreResult

PANEL = "Server"
SHOWN_JOBS = 20
"""Jobs that `restore` names; `grus ps` lists all of them."""


def add_to(app: typer.Typer) -> None:
    for verb, shown in (
        (
            fsck,
            examples("grus fsck", "grus fsck --artefacts", "grus fsck /backups/monday", "grus fsck -o json"),
        ),
        (
            backup,
            examples(
                "grus backup /backups/monday",
                "grus backup /backups/monday --artefacts --logs",
                "grus backup /backups --keep 14 --logs",
            ),
        ),
        (restore, examples("grus restore /backups/monday", "grus restore /backups/monday --force")),
    ):
        app.command(rich_help_panel=PANEL, epilog=shown)(verb)


# -------------------------------------------------------------------------------------------------- fsck


def fsck(
    back_up: Annotated[
        Path | None, typer.Argument(metavar="[BACKUP]", help="A backup to examine, in place of the state.")
    ] = None,
    artefacts: Annotated[
        bool, typer.Option("--artefacts", help="Read every byte that jobs left behind; slow.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Remove logs and code copies of jobs that are not on record.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Check the state against the log of events.

    It computes the state again and reports the differences; exit code 1 if there are any.
    """
    from grus.controlplane.integrity.check import check
    from grus.server.runtime.state_check import DATABASE, require

    removed: list[Path] = []
    if back_up is not None:
        verdict = _check_back_up(back_up.absolute(), artefacts=artefacts, repair=repair)
    else:
        at = places()
        require(at.state)
        beside = _beside(at)
        verdict = check(at.state / DATABASE, beside, read_all=artefacts)
        if repair:
            removed = _repair(at, beside)
            verdict = check(at.state / DATABASE, _beside(at), read_all=artefacts)
    told = {
        "clean": verdict.clean,
        "jobs": verdict.jobs,
        "events": verdict.events,
        "removed": [str(path) for path in removed],
        "findings": [asdict(one) for one in verdict.findings],
    }
    emit(told, output, lambda: _show(verdict, removed))
    if not verdict.clean:
        raise typer.Exit(1)


def _check_back_up(source: Path, *, artefacts: bool, repair: bool) -> "FsckResult":
    """Check a backup for consistency as of the time when it was made; never change anything in it."""
    from grus.controlplane.integrity.check import check
    from grus.server.backup.create import contents
    from grus.server.runtime.state_check import DATABASE

    if repair:
        raise BadInput([Mistake("repair", "is for the state; a backup stays as it was made", str(source))])
    made = contents(source)
    database = source if made is None else source / DATABASE
    if made is not None and made.artefacts:
        beside = _beside(GrusPaths(config=source, state=source), made.at)
        verdict = check(database, beside, read_all=artefacts)
        return replace(verdict, findings=tuple(map(_in_a_back_up, verdict.findings)))
    if artefacts:
        rule = "are not in this backup; `grus backup --artefacts` makes one that has them"
        raise BadInput([Mistake("artefacts", rule, str(source))])
    return check(database)


def _in_a_back_up(finding: "Finding") -> "Finding":
    if finding.check != "artefacts":
        return finding
    return replace(finding, fix="make another backup while the state still has it; this one has lost it")


def _beside(at: GrusPaths, now: float | None = None) -> "Leftovers":
    """Return the files beside the record at that time (default: now)."""
    from grus.controlplane.integrity.orphans import Leftovers
    from grus.controlplane.settings import Settings
    from grus.server.config import load

    kept = load(at).artefacts_kept
    settings = Settings(state=at.state, as_submitters=os.geteuid() == 0, artefact_retention=kept)
    return Leftovers(settings, time.time() if now is None else now)


def _repair(at: GrusPaths, beside: "Leftovers") -> list[Path]:
    """Raises Conflict while a server runs: it may be about to do the same."""
    from grus.server.runtime.lock import StateLock

    lock = StateLock(at.lock_file)
    lock.take()
    try:
        return beside.remove()
    finally:
        lock.release()


def _show(verdict: "FsckResult", removed: list[Path]) -> None:
    for path in removed:
        say(f"removed {path}")
    if verdict.findings:
        rows = [
            ("fail" if one.grave else "ok", one.check, one.which, one.text, one.fix)
            for one in verdict.findings
        ]
        table(("", "CHECK", "WHICH", "FOUND", "WHAT TO DO"), rows)
    grave = sum(one.grave for one in verdict.findings)
    count = "nothing differs" if not grave else f"{grave} thing{'s' * (grave > 1)} differ{'s' * (grave == 1)}"
    say(f"{counted(verdict.jobs, 'job')} and {counted(verdict.events, 'event')} looked at: {count}.")


# ---------------------------------------------------------------------------------------- backup, restore


def backup(
    target: Annotated[
        Path, typer.Argument(help="New or empty folder; with --keep, the folder of all backups.")
    ],
    artefacts: Annotated[
        bool, typer.Option("--artefacts", help="Also what jobs left behind; it may be large.")
    ] = False,
    logs: Annotated[bool, typer.Option("--logs", help="Also the logs of jobs.")] = False,
    keep: Annotated[
        int | None,
        typer.Option(help="Make a dated backup inside the folder; keep the newest N.", min=1, metavar="N"),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Copy the state at one moment into a folder.

    A server may run meanwhile, and continues.
    """
    from grus.server.backup.create import back_up, inline_secrets
    from grus.server.backup.rotation import name_of, remove_old

    now, folder = time.time(), target.absolute()
    made_in = folder if keep is None else folder / name_of(now)
    made = back_up(places(), made_in, now, artefacts=artefacts, logs=logs)
    gone = [] if keep is None else remove_old(folder, keep)
    told = {"folder": str(made_in), **asdict(made), "removed": [str(path) for path in gone]}
    more = [name for name, there in (("artefacts", made.artefacts), ("logs", made.logs)) if there]
    emit(
        told,
        output,
        lambda: fields(
            (
                ("backup", told["folder"]),
                ("jobs", made.jobs),
                ("last event", made.last_event),
                ("files", ", ".join([*made.files, *more])),
                ("removed", ", ".join(path.name for path in gone)),
            )
        ),
    )
    if made.damaged:
        hint(f"{made.damaged} damaged parts of artefacts are not in it: `grus fsck --artefacts` says whose")
    _tell_left_out(made)
    if inline := inline_secrets(made_in):
        hint(
            f"warning: config.toml is in it, with secrets: {', '.join(inline)}. Keep the backup private, "
            "or move each secret into a file (`secret_file`, `password_file`, the token file)."
        )


def _tell_left_out(made: "Backup") -> None:
    logs = "" if made.logs else "logs, "
    hint(
        f"not in it: {logs}copies of code, telemetry, secrets of jobs, the token file, certificate and key, "
        "and files that config.toml names (secret_file, password_file); keep those elsewhere"
    )


def restore(
    source: Annotated[
        Path, typer.Argument(help="A backup, or a copy of grus.db with its log (grus.db-wal) beside it.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Put aside the state that is there, and end what it alone knows.")
    ] = False,
    without_log: Annotated[
        bool,
        typer.Option(
            "--without-log", help="Take a copy of grus.db alone; what stood only in its log is lost."
        ),
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Restore the state from a backup.

    No server may run. Servers and workers that ran since the backup are fenced off.
    """
    from grus.server.backup.restore import restore as bring_back

    at = places()
    done = bring_back(at, source.absolute(), time.time(), force=force, without_log=without_log)
    emit(asdict(done), output, lambda: _show_restored(at, done))
    if done.damaged:
        hint(
            f"{done.damaged} damaged parts of artefacts in the backup are left out: "
            "`grus fsck --artefacts` says whose"
        )
    if not at.token_file.exists():
        hint(f"there is no token in {at.token_file}: put your own there, or set GRUS_TOKEN")


def _show_restored(at: GrusPaths, done: "RestoreResult") -> None:
    from grus.cli.server.service_checks import runs_as_service, systemctl

    fields(
        (
            ("state", str(at.state)),
            ("jobs", done.jobs),
            ("last event", done.last_event),
            ("epoch", f"{done.epoch}; whoever acted under an earlier one is fenced"),
            ("ended", ", ".join(done.ended)),
            ("live jobs", _of_live(done.live)),
            ("settings", done.settings),
            ("tokens", _of_tokens(done.revoked)),
            ("users back", ", ".join(f"{name} (no token)" for name in done.returned)),
            ("before", done.aside),
        )
    )
    if done.live:
        hint("live jobs run at the next start, even those that ended since the backup; `grus stop` ends them")
    start = systemctl("start") if runs_as_service(at) else "grus up"
    hint(f"next: grus fsck · {start}")


def _of_live(live: tuple[str, ...]) -> str:
    shown = ", ".join(live[:SHOWN_JOBS])
    return f"{shown} and {len(live) - SHOWN_JOBS} more" if len(live) > SHOWN_JOBS else shown or "none"


def _of_tokens(revoked: tuple[str, ...] | None) -> str:
    if revoked is None:
        return "all of the backup are valid; revoke those that were revoked since"
    return f"not valid any more: {', '.join(revoked)}" if revoked else "as in the backup"
