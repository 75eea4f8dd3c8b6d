"""The verbs for the server itself: start it, end it, ask how it is, check the installation."""

import contextlib
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli.output import (
    Format,
    Output,
    emit,
    emit_json,
    examples,
    fields,
    hint,
    local,
    number,
    say,
    table,
)
from grus.model.errors import BadInput, Conflict, Mistake, Unreachable
from grus.sdk.places import places

if TYPE_CHECKING:
    from grus.api.wire import StatusOut
    from grus.sdk.client import Client
    from grus.sdk.places import Running

PANEL = "Server"


def add_to(app: typer.Typer) -> None:
    for verb, shown in (
        (up, examples("grus up", "grus up --virtual 2x4x16GB", "grus up --port 0", "grus up --foreground")),
        (down, examples("grus down", "grus down --jobs", "grus down --purge --yes")),
        (status, examples("grus status", "grus status -o json")),
        (doctor, examples("grus doctor", "grus doctor -o json")),
    ):
        app.command(rich_help_panel=PANEL, epilog=shown)(verb)


# ---------------------------------------------------------------------------------------------------- up


def up(
    virtual: Annotated[str, typer.Option(help="Pretend a pool: nodes x GPUs x memory, as 2x4x16GB.")] = "",
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; others than this machine need TLS.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="7600 by default; 0 takes a free one.", min=0, max=65535)
    ] = None,
    dev_port: Annotated[
        int | None,
        typer.Option(help="Of development sessions; the next free one by default.", min=0, max=65535),
    ] = None,
    certificate: Annotated[Path | None, typer.Option("--tls-cert", help="Certificate (PEM).")] = None,
    key: Annotated[Path | None, typer.Option("--tls-key", help="Its key (PEM).")] = None,
    insecure_http: Annotated[
        bool, typer.Option("--insecure-http", help="Send tokens in the clear to other machines.")
    ] = False,
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay here, log to stderr.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Start the server in the background; jobs of an earlier one go on where they are."""
    from grus.cli import background
    from grus.server import config

    at = places()
    if (server := background.is_running(at)) is not None:
        raise Conflict(f"The server of {at.state} is running already: {server.address} (pid {server.pid}).")
    settings = config.load(
        at,
        pool=f"virtual {virtual}" if virtual else None,
        host=host,
        port=port,
        dev_port=dev_port,
        certificate=_absolute(certificate),
        key=_absolute(key),
        insecure_http=insecure_http or None,
    )
    if foreground:
        from grus.dashboard.mounting import mount
        from grus.server.main import serve

        raise typer.Exit(serve(settings, mount))
    first = not at.token_file.exists()
    started = _start_with_progress(_arguments(virtual, host, port, dev_port, certificate, key, insecure_http))
    _tell_started(started, output, first)


def _absolute(path: Path | None) -> Path | None:
    if path is not None and not path.is_file():
        raise BadInput([Mistake("--tls-cert, --tls-key", "names no file", str(path))])
    return path.absolute() if path is not None else None


def _arguments(
    virtual: str,
    host: str | None,
    port: int | None,
    dev_port: int | None,
    certificate: Path | None,
    key: Path | None,
    insecure: bool,
) -> list[str]:
    """The same options for the process in the background."""
    given = {
        "--virtual": virtual or None,
        "--host": host,
        "--port": port,
        "--dev-port": dev_port,
        "--tls-cert": _absolute(certificate),
        "--tls-key": _absolute(key),
    }
    words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    return [*words, "--insecure-http"] if insecure else words


def _start_with_progress(arguments: list[str]) -> "Running":
    from grus.cli import background

    try:
        if not sys.stderr.isatty():
            return background.start(places(), arguments)
        from rich.console import Console

        with Console(stderr=True).status("Starting the server …"):
            return background.start(places(), arguments)
    except background.DidNotStart as error:
        hint(f"error: {error}\n  its log: {places().log_file}")
        raise typer.Exit(error.exit) from None


def _tell_started(server: "Running", output: Format, first: bool) -> None:
    from grus.cli.access import connected

    at = places()
    with connected() as client:
        now = client.status()
        if output is Format.JSON:
            emit_json({"address": server.address, "pid": server.pid, "status": now})
            return
        fields(
            (
                ("server", f"{server.address} (pid {server.pid})"),
                ("dashboard", f"{server.address}/ (`grus dashboard` opens it signed in)"),
                ("pool", _pool_words(client)),
                ("queues", _queue_words(client)),
                ("token", f"{at.token_file}" + (" (new, of the user admin)" if first else "")),
                ("state", str(at.state)),
                ("log", str(at.log_file)),
            )
        )
    hint("next: grus run --gpu 1 -- python train.py · grus submit job.yaml · grus dashboard · grus down")


def _pool_words(client: "Client") -> str:
    nodes = client.nodes()
    kinds: dict[str, int] = {}
    for node in nodes:
        for device in node.gpus:
            kinds[device.type] = kinds.get(device.type, 0) + 1
    listed = ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items()))
    return f"{len(nodes)} node{'s' * (len(nodes) != 1)}: {listed or 'no GPUs'}"


def _queue_words(client: "Client") -> str:
    return ", ".join(f"{queue.name} (quota {number(queue.quota)})" for queue in client.queues())


# -------------------------------------------------------------------------------------------------- down


def down(
    jobs: Annotated[bool, typer.Option("--jobs", help="Stop all jobs first.")] = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove the state: jobs, logs, queues, users.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """End the server. Jobs go on by themselves, and the next `up` finds them again."""
    from grus.cli import background

    at = places()
    server = background.is_running(at)
    if server is None and not purge:
        raise Unreachable(f"No server is running on {at.state}.")
    if purge and server is None:
        _refuse_with_workers(at.state)
    if purge:
        _ask_to_purge(at.state, yes)
    left = _end_jobs(stop=jobs or purge) if server is not None else []
    if server is not None:
        background.stop(server)
    if purge:
        shutil.rmtree(at.state, ignore_errors=True)
        at.token_file.unlink(missing_ok=True)
    told = {"stopped": server is not None, "jobs_left": left, "purged": purge}
    emit(told, output, lambda: _tell_down(server, left, purge, at.state))


def _ask_to_purge(state: Path, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadInput(
            [
                Mistake(
                    "--purge", "removes all jobs, logs, queues and users: add --yes where nobody can be asked"
                )
            ]
        )
    if not typer.confirm(f"Remove everything in {state}: jobs, logs, queues, users?", err=True):
        raise Conflict("Nothing was removed.")


def _refuse_with_workers(state: Path) -> None:
    """Without a server nobody can end what still runs; without its state nobody could ever again."""
    folders = (state / "engine" / "workers").glob("*")
    if any((folder / "claim").exists() and not (folder / "exit.json").exists() for folder in folders):
        raise Conflict("Jobs of an earlier server may still run. Start it with `grus up`, then purge.")


def _end_jobs(*, stop: bool) -> list[str]:
    """Ids of the jobs that go on; with `stop`, all of them are ended first."""
    from grus.cli.access import connected
    from grus.cli.jobs import LIVE, wait_for
    from grus.model.jobs import HOLDING, TERMINAL

    with connected() as client:
        live = client.jobs(phases=LIVE, limit=1000)
        if not stop:
            return [job.id for job in live if job.phase in HOLDING]
        while live:
            for job in live:
                with contextlib.suppress(Conflict):  # it has ended meanwhile
                    client.stop(job.id)
            for job in live:
                wait_for(client, job.id, set(TERMINAL))
            live = client.jobs(phases=LIVE, limit=1000)
    return []


def _tell_down(server: "Running | None", left: list[str], purged: bool, state: Path) -> None:
    if server is not None:
        say(f"The server (pid {server.pid}) has ended.")
    if left:
        count = f"{len(left)} job goes" if len(left) == 1 else f"{len(left)} jobs go"
        say(f"{count} on without it: {', '.join(left[:10])}{' …' * (len(left) > 10)}; `grus up` finds them.")
    if purged:
        say(f"{state} is gone.")


# ------------------------------------------------------------------------------------------------ status


def status(output: Output = Format.TABLE) -> None:
    """How the server and the pool are."""
    from grus.cli.access import connected

    with connected() as client:
        now = client.status()
        emit(now, output, lambda: _show_status(client, now))


def _show_status(client: "Client", now: "StatusOut") -> None:
    from grus.cli.foreseen import record_words

    jobs = ", ".join(f"{count} {phase}" for phase, count in now.jobs.items() if count)
    pool = now.pool
    fields(
        (
            ("server", f"{client.address}, version {now.version}"),
            ("since", local(now.started_at)),
            ("you are", f"{now.user} ({now.role})" if now.user else ""),
            ("pool", _pool_words(client)),
            ("in use", f"{number(pool.held)} held of {pool.usable} usable, {pool.gpus} in all"),
            ("jobs", jobs or "none"),
            ("forecasts", record_words(now.forecasts)),
            *sorted(now.mechanisms.items()),
        )
    )
    for warning in now.warnings:
        say(f"warning: {warning}")


def doctor(output: Output = Format.TABLE) -> None:
    """Check the installation and name the fixes; exit code 1 if something cannot work."""
    from grus.cli.doctor import FAIL, examine

    findings = examine()
    rows = [(finding.state, finding.check, finding.text, finding.fix) for finding in findings]
    emit(
        [finding.as_json() for finding in findings],
        output,
        lambda: table(("", "CHECK", "FOUND", "FIX"), rows),
    )
    if any(finding.state == FAIL for finding in findings):
        raise typer.Exit(1)
