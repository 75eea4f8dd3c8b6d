"""The verbs for a state that is to outlive accidents: examine it, back it up, bring it back.

They work on the state folder of this machine, not through a server: `fsck` and `backup` while one runs or
not, `restore` only while none does.
"""

import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli.output import Format, Output, emit, examples, fields, hint, say, table
from grus.sdk.places import Places, places

if TYPE_CHECKING:
    from grus.controlplane.fsck import Verdict
    from grus.controlplane.leftovers import Leftovers
    from grus.server.restoring import Restored

PANEL = "Server"


def add_to(app: typer.Typer) -> None:
    for verb, shown in (
        (
            fsck,
            examples("grus fsck", "grus fsck --artefacts", "grus fsck /backups/monday", "grus fsck -o json"),
        ),
        (backup, examples("grus backup /backups/monday", "grus backup /backups/monday --artefacts")),
        (restore, examples("grus restore /backups/monday", "grus restore /backups/monday --force")),
    ):
        app.command(rich_help_panel=PANEL, epilog=shown)(verb)


# -------------------------------------------------------------------------------------------------- fsck


def fsck(
    back_up: Annotated[
        Path | None, typer.Argument(metavar="[BACKUP]", help="A back-up to examine, in place of the state.")
    ] = None,
    artefacts: Annotated[
        bool, typer.Option("--artefacts", help="Read every byte that jobs left behind; slow.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Remove logs and code copies of jobs that are not on record.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Work the state out again from the log of events and say what differs; exit code 1 if anything does."""
    from grus.controlplane.fsck import check
    from grus.server.backing_up import DATABASE, database_in

    removed: list[Path] = []
    if back_up is not None:
        verdict = check(database_in(back_up))
    else:
        at = places()
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


def _beside(at: Places) -> "Leftovers":
    from grus.controlplane.leftovers import Leftovers
    from grus.controlplane.settings import Settings
    from grus.server.config import load

    kept = load(at).artefacts_kept
    settings = Settings(state=at.state, as_submitters=os.geteuid() == 0, artefact_retention=kept)
    return Leftovers(settings, time.time())


def _repair(at: Places, beside: "Leftovers") -> list[Path]:
    """Raises Conflict while a server runs: it may be about to do the same."""
    from grus.server.lock import StateLock

    lock = StateLock(at.lock_file)
    lock.take()
    try:
        return beside.remove()
    finally:
        lock.release()


def _show(verdict: "Verdict", removed: list[Path]) -> None:
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
    say(f"{verdict.jobs} jobs and {verdict.events} events looked at: {count}.")


# ---------------------------------------------------------------------------------------- back-up, restore


def backup(
    target: Annotated[Path, typer.Argument(help="A folder to make; it must not exist, or be empty.")],
    artefacts: Annotated[
        bool, typer.Option("--artefacts", help="Also what jobs left behind; it may be large.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Copy the state into a folder, as it is at one moment; a server may run and go on meanwhile."""
    from grus.server.backing_up import back_up

    made = back_up(places(), target.absolute(), time.time(), artefacts=artefacts)
    told = {"folder": str(target.absolute()), **asdict(made)}
    emit(
        told,
        output,
        lambda: fields(
            (
                ("back-up", told["folder"]),
                ("jobs", made.jobs),
                ("last event", made.last_event),
                ("files", ", ".join([*made.files, *(["artefacts"] if made.artefacts else [])])),
            )
        ),
    )
    hint("not in it: logs, copies of code, telemetry, and the token file; keep your token elsewhere")


def restore(
    source: Annotated[Path, typer.Argument(help="A back-up, or a copy of grus.db alone.")],
    force: Annotated[
        bool, typer.Option("--force", help="Put aside the state that is there, and end what it alone knows.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Make a back-up the state; no server may run. What ran since then cannot act on."""
    from grus.server.restoring import restore as bring_back

    at = places()
    done = bring_back(at, source.absolute(), time.time(), force=force)
    emit(asdict(done), output, lambda: _show_restored(at, done))
    if not at.token_file.exists():
        hint(f"there is no token in {at.token_file}: put your own there, or set GRUS_TOKEN")


def _show_restored(at: Places, done: "Restored") -> None:
    fields(
        (
            ("state", str(at.state)),
            ("jobs", done.jobs),
            ("last event", done.last_event),
            ("epoch", f"{done.epoch}; whoever acted under an earlier one is fenced"),
            ("ended", ", ".join(done.ended)),
            ("settings", done.settings),
            ("before", done.aside),
        )
    )
    hint("next: grus fsck · grus up")
