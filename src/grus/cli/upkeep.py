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

from grus.cli.output import Format, Output, emit, examples, fields, hint, say, table
from grus.model.errors import BadInput, Mistake
from grus.sdk.places import Places, places

if TYPE_CHECKING:
    from grus.controlplane.fsck import Verdict
    from grus.controlplane.leftovers import Leftovers
    from grus.model.findings import Finding
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
    from grus.server.record import DATABASE, require

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


def _check_back_up(source: Path, *, artefacts: bool, repair: bool) -> "Verdict":
    """What is in it against each other, as it was when it was made; nothing in it is ever changed."""
    from grus.controlplane.fsck import check
    from grus.server.backing_up import contents
    from grus.server.record import DATABASE

    if repair:
        raise BadInput([Mistake("repair", "is for the state; a back-up stays as it was made", str(source))])
    made = contents(source)
    database = source if made is None else source / DATABASE
    if made is not None and made.artefacts:
        beside = _beside(Places(config=source, state=source), made.at)
        verdict = check(database, beside, read_all=artefacts)
        return replace(verdict, findings=tuple(map(_in_a_back_up, verdict.findings)))
    if artefacts:
        rule = "are not in this back-up; `grus backup --artefacts` makes one that has them"
        raise BadInput([Mistake("artefacts", rule, str(source))])
    return check(database)


def _in_a_back_up(finding: "Finding") -> "Finding":
    if finding.check != "artefacts":
        return finding
    return replace(finding, fix="make another back-up while the state still has it; this one has lost it")


def _beside(at: Places, now: float | None = None) -> "Leftovers":
    """What lies beside the record, at that time (now)."""
    from grus.controlplane.leftovers import Leftovers
    from grus.controlplane.settings import Settings
    from grus.server.config import load

    kept = load(at).artefacts_kept
    settings = Settings(state=at.state, as_submitters=os.geteuid() == 0, artefact_retention=kept)
    return Leftovers(settings, time.time() if now is None else now)


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
    if made.damaged:
        hint(f"{made.damaged} damaged parts of artefacts are not in it: `grus fsck --artefacts` says whose")
    hint("not in it: logs, copies of code, telemetry, and the token file; keep your token elsewhere")


def restore(
    source: Annotated[
        Path, typer.Argument(help="A back-up, or a copy of grus.db with its log (grus.db-wal) beside it.")
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
    """Make a back-up the state; no server may run. What ran since then cannot act on."""
    from grus.server.restoring import restore as bring_back

    at = places()
    done = bring_back(at, source.absolute(), time.time(), force=force, without_log=without_log)
    emit(asdict(done), output, lambda: _show_restored(at, done))
    if done.damaged:
        hint(
            f"{done.damaged} damaged parts of artefacts in the back-up are left out: "
            "`grus fsck --artefacts` says whose"
        )
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
            ("tokens", _of_tokens(done.revoked)),
            ("before", done.aside),
        )
    )
    hint("next: grus fsck · grus up")


def _of_tokens(revoked: tuple[str, ...] | None) -> str:
    if revoked is None:
        return "all of the back-up are valid; revoke those that were revoked since"
    return f"not valid any more: {', '.join(revoked)}" if revoked else "as in the back-up"
