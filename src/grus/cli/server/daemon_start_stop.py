"""The verbs for the server itself: start it, end it, ask how it is, check the installation."""

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from grus.cli.render.output import (
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
from grus.model.errors import BadInput, Conflict, GrusError, Mistake, NotLoggedIn, Unreachable
from grus.model.texts.plural_words import counted
from grus.sdk.state_paths import find_token, places

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grus.api.wire_types.pool import NodeOut, StatusOut
    from grus.sdk.client import Client
    from grus.sdk.state_paths import GrusPaths, Running
    from grus.server.config import ServerSettings

PANEL = "Server"


def add_to(app: typer.Typer) -> None:
    for verb, shown in (
        (
            up,
            examples(
                "grus up",
                "grus up --virtual 2x4x16GB",
                "grus up --host gpu.lab --tls-cert gpu.crt --tls-key gpu.key",
                "grus up --port 0",
                "grus up --foreground",
            ),
        ),
        (down, examples("grus down", "grus down --jobs", "grus down --purge --yes")),
        (status, examples("grus status", "grus status -o json")),
        (doctor, examples("grus doctor", "grus doctor -o json")),
    ):
        app.command(rich_help_panel=PANEL, epilog=shown)(verb)


# ---------------------------------------------------------------------------------------------------- up


def up(
    virtual: Annotated[str, typer.Option(help="Pretend a pool: nodes x GPUs x memory, as 2x4x16GB.")] = "",
    host: Annotated[
        str | None,
        typer.Option(help="Name or address of this machine for others; needs TLS. As last time by default."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="As last time by default, at first 7600; 0 takes a free one.", min=0, max=65535),
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
    """Start the server in the background; existing jobs continue."""
    from grus.cli.server import background_process

    at = places()
    if (server := background_process.is_running(at)) is not None:
        raise Conflict(
            f"The server of {at.state} is running already: {server.address} (pid {server.pid}); "
            "to change its options: `grus down`, then `grus up` with them (jobs continue)."
        )
    if not foreground:
        _refuse_beside_service(at)
    given = UpOptions(
        virtual=virtual,
        host=host,
        port=port,
        dev_port=dev_port,
        certificate=certificate,
        key=key,
        insecure_http=insecure_http,
    )
    settings = settings_for(at, given)  # errors are reported before anything starts
    if foreground:
        from grus.dashboard.mounting import mount
        from grus.server.main import serve

        raise typer.Exit(serve(settings, mount))
    first = not at.token_file.exists()
    warnings: list[str] = []
    started = _start_with_progress(arguments(given), warnings.append)
    _tell_started(started, output, first, warnings)


def _absolute(path: Path | None) -> Path | None:
    return path.absolute() if path is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """Options of `grus up` that a server is started with."""

    virtual: str
    host: str | None
    port: int | None
    dev_port: int | None
    certificate: Path | None
    key: Path | None
    insecure_http: bool


def settings_for(at: "GrusPaths", given: UpOptions) -> "ServerSettings":
    """Settings of a server that is started with these options. Raises BadInput."""
    from grus.server import config

    if given.virtual:
        _check_pool(given.virtual)
    settings = config.load(
        at,
        pool=f"virtual {given.virtual}" if given.virtual else None,
        host=given.host,
        port=given.port,
        dev_port=given.dev_port,
        certificate=_absolute(given.certificate),
        key=_absolute(given.key),
        insecure_http=given.insecure_http or None,
    )
    config.with_identity(settings, time.time())
    return settings


def _check_pool(virtual: str) -> None:
    from grus.telemetry.virtual_gpus import parse_pool

    try:
        parse_pool(virtual)
    except BadInput as error:
        raise BadInput([replace(one, field="--virtual") for one in error.mistakes]) from None


def _refuse_beside_service(at: "GrusPaths") -> None:
    """Raises Conflict if systemd has a unit for this state: a server beside it would take its place."""
    from grus.cli.server.service_checks import runs_as_service, systemctl

    if runs_as_service(at):
        raise Conflict(
            f"grus.service is installed for {at.state}: start it with `{systemctl('start')}`, give it "
            "options with `grus service install -- OPTION...`, or start a server without it: "
            "`grus up --foreground`."
        )


def arguments(given: UpOptions) -> list[str]:
    """Words of a command line with these options; paths are absolute."""
    values = {
        "--virtual": given.virtual or None,
        "--host": given.host,
        "--port": given.port,
        "--dev-port": given.dev_port,
        "--tls-cert": _absolute(given.certificate),
        "--tls-key": _absolute(given.key),
    }
    words = [word for name, value in values.items() if value is not None for word in (name, str(value))]
    return [*words, "--insecure-http"] if given.insecure_http else words


def _start_with_progress(words: list[str], warn: "Callable[[str], None]") -> "Running":
    from grus.cli.server import background_process
    from grus.cli.server.service_checks import service_elsewhere

    try:
        if not sys.stderr.isatty():
            return background_process.start(places(), words, warn=warn)
        from rich.console import Console

        with Console(stderr=True).status("Starting the server …"):
            return background_process.start(places(), words, warn=warn)
    except background_process.DidNotStart as error:
        hint(f"error: {error}")
        if places().log_file.exists():
            hint(f"  its log: {places().log_file}")
        if elsewhere := service_elsewhere(places()):
            hint(f"  {elsewhere}")
        raise typer.Exit(error.exit) from None


def _tell_started(server: "Running", output: Format, first: bool, warnings: list[str]) -> None:
    from grus.cli.connection import connected_here

    for text in warnings:
        hint(f"warning: {text}")
    try:
        with connected_here() as client:
            if output is Format.JSON:
                told = {"address": server.address, "pid": server.pid, "status": client.status()}
                emit_json({**told, "warnings": warnings})
                return
            _show_started(server, client, first)
    except GrusError as error:
        hint(f"The server runs (pid {server.pid}) at {server.address}, but this command cannot use it.")
        raise error_without_token() or error from None
    for line in lines_for_others(server):
        hint(line)
    hint("next: grus run --gpu 1 -- python train.py · grus submit job.yaml · grus dashboard · grus down")


def error_without_token() -> NotLoggedIn | None:
    """The error for an account that has no token, as after a restore on an empty machine."""
    at = places()
    if find_token(os.environ, at).secret:
        return None
    return NotLoggedIn(
        f"There is no token in {at.token_file}: put an administrator's token there, or set GRUS_TOKEN."
    )


def _show_started(server: "Running", client: "Client", first: bool) -> None:
    at = places()
    fields(
        (
            ("server", f"{server.address} (pid {server.pid})"),
            ("dashboard", f"{server.address}/ (`grus dashboard` opens it signed in)"),
            ("pool", _pool_words(client.nodes())),
            ("queues", _queue_words(client)),
            ("token", f"{at.token_file}" + (" (new, of the user admin)" if first else "")),
            ("state", str(at.state)),
            ("log", str(at.log_file)),
        )
    )


def lines_for_others(server: "Running") -> Iterator[str]:
    """Lines on what other machines need to reach a server with TLS; none if only this machine reaches it."""
    from grus.cli.server.background_process import is_trusted
    from grus.sdk.connection_errors import is_loopback

    if not server.certificate or is_loopback(urlsplit(server.address).hostname or ""):
        return

    yield f"other machines: export GRUS_SERVER={server.address} GRUS_TOKEN=TOKEN"
    if not is_trusted(server):
        yield "  their system does not know the certificate: copy its file there, and name it in GRUS_CA"


def _pool_words(nodes: "Sequence[NodeOut]") -> str:
    kinds: dict[str, int] = {}
    for node in nodes:
        for device in node.gpus:
            kinds[device.type] = kinds.get(device.type, 0) + 1
    listed = ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items()))
    return f"{counted(len(nodes), 'node')}: {listed or 'no GPUs'}"


def _cordoned_words(node: "NodeOut") -> str:
    """Name a node that takes no new work, with the message to users."""
    if node.drain is None:
        return f"{node.id} (cordoned)"
    return f"{node.id} (drained{': ' if node.drain.message else ''}{node.drain.message})"


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
    """End the server; jobs continue.

    The next `up` finds them again.
    """
    from grus.cli.server import background_process

    at = places()
    server = background_process.is_running(at) or background_process.starting(at)
    if server is None and not purge:
        raise Unreachable(f"No server is running on {at.state}.")
    if purge and server is None:
        _refuse_with_workers(at.state)
    if purge:
        _ask_to_purge(at.state, yes)
    left = _left_jobs(server, stop=jobs or purge)
    if server is not None:
        background_process.stop(server)
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
    """Refuse to purge while jobs may run.

    Without a server no process can end them; without its state none ever could.
    """
    folders = (state / "engine" / "workers").glob("*")
    if any((folder / "claim").exists() and not (folder / "exit.json").exists() for folder in folders):
        raise Conflict("Jobs of an earlier server may still run. Start it with `grus up`, then purge.")


def _left_jobs(server: "Running | None", *, stop: bool) -> list[str]:
    """Return the ids of the jobs that continue; with `stop`, end all of them first."""
    if server is None:
        return []
    try:
        return _end_jobs(stop=stop)
    except GrusError as error:
        if stop:
            raise
        hint(f"The jobs that go on are not listed: {error}")  # no reason to keep the server
        return []


def _end_jobs(*, stop: bool) -> list[str]:
    from grus.cli.commands.jobs import LIVE, wait_for
    from grus.cli.connection import connected_here
    from grus.model.jobs import HOLDING, TERMINAL

    with connected_here() as client:
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
        them = "it" if len(left) == 1 else "them"
        say(
            f"{count} on without it: {', '.join(left[:10])}{' …' * (len(left) > 10)}; `grus up` finds {them}."
        )
    if purged:
        say(f"{state} is gone.")


# ------------------------------------------------------------------------------------------------ status


def status(output: Output = Format.TABLE) -> None:
    """Show the state of the server and the pool."""
    from grus.cli.connection import connected

    with connected() as client:
        now = client.status()
        emit(now, output, lambda: _show_status(client, now))


def _show_status(client: "Client", now: "StatusOut") -> None:
    from grus.cli.render.job_eta import record_words

    jobs = ", ".join(f"{count} {phase}" for phase, count in now.jobs.items() if count)
    pool, nodes = now.pool, client.nodes()
    fields(
        (
            ("server", f"{client.address}, version {now.version}"),
            ("since", local(now.started_at)),
            ("you are", f"{now.user} ({now.role})" if now.user else ""),
            ("pool", _pool_words(nodes)),
            ("no new work", ", ".join(_cordoned_words(node) for node in nodes if node.cordoned)),
            ("in use", f"{number(pool.held)} held of {pool.usable} usable, {pool.gpus} in all"),
            ("jobs", jobs or "none"),
            ("forecasts", record_words(now.forecasts)),
            *sorted(now.mechanisms.items()),
        )
    )
    for warning in now.warnings:
        say(f"warning: {warning}")


def doctor(output: Output = Format.TABLE) -> None:
    """Check the installation and name the fixes.

    Exit code 1 if anything cannot work.
    """
    from grus.cli.server.doctor import FAIL, examine

    findings = examine()
    rows = [(finding.state, finding.check, finding.text, finding.fix) for finding in findings]
    emit(
        [finding.as_json() for finding in findings],
        output,
        lambda: table(("", "CHECK", "FOUND", "FIX"), rows),
    )
    if any(finding.state == FAIL for finding in findings):
        raise typer.Exit(1)
