"""The verb for development sessions: JupyterLab or a shell on a part of a GPU, and out of it a training."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli import env_options
from grus.cli.commands.dashboard import has_screen
from grus.cli.commands.jobs import Queue
from grus.cli.connection import complete_job, connected, find_job
from grus.cli.render.output import Format, Output, emit, examples, for_people, hint, say
from grus.model.errors import BadInput, Conflict, Mistake, NotAllowed
from grus.model.phases import HOLDING, TERMINAL, Phase

if TYPE_CHECKING:
    from grus.api.wire_types.dev_session import SessionOut
    from grus.api.wire_types.job import JobOut
    from grus.sdk.client import Client

PANEL = "Jobs"
SESSION = ("python3", "-m", "grus.interactive.session")
LOOK = 0.3
"""Seconds between two looks at a session that is about to be ready."""
QUIET = 10.0
"""Seconds after which it is said what it waits for."""
SHELL = "shell"


def add_to(app: typer.Typer) -> None:
    shown = examples(
        "grus dev",
        "grus dev --gpu 0.5 --for 4h -q vision",
        "grus dev --shell",
        "grus dev notebook",
        "grus dev --to-train notebook.ipynb",
    )
    app.command(rich_help_panel=PANEL, epilog=shown)(dev)


def dev(
    job: Annotated[
        str,
        typer.Argument(
            metavar="[JOB]",
            help="Open this session again; without it a new one.",
            autocompletion=complete_job,
        ),
    ] = "",
    gpu: Annotated[str, typer.Option("--gpu", "-g", help="0.25 · 8GB · 1 · A100:1")] = "0.25",
    shell: Annotated[bool, typer.Option("--shell", help="A shell in place of JupyterLab.")] = False,
    queue: Queue = "default",
    name: Annotated[str, typer.Option("--name", "-n", help="Name of the session.")] = "dev",
    longest: Annotated[str, typer.Option("--for", help="End it after this time, such as 2h.")] = "",
    idle: Annotated[
        str, typer.Option(help="Pause it when nobody has used it for so long; 0 for never.")
    ] = "1h",
    env: env_options.Env = None,
    secret: env_options.Secret = None,
    to_train: Annotated[
        Path | None,
        typer.Option(help="Make a training job of this notebook, and open nothing.", metavar="NOTEBOOK"),
    ] = None,
    open_: Annotated[
        bool, typer.Option("--open/--no-open", help="Open a browser, where there is a screen.")
    ] = True,
    output: Output = Format.TABLE,
) -> None:
    """Open JupyterLab or a shell on a GPU part.

    A session is a job of type dev in this folder: inside quota and non-preemptible. Its address opens it
    once, for its owner alone. `grus stop` ends it; `grus dev JOB` opens it again.
    """
    if to_train is not None:
        _write_training(to_train, gpu, queue, output)
        return
    if os.environ.get("GRUS_KUBERNETES"):
        rule = "is not for a pool on Kubernetes: sessions run on the server's own machine"
        raise BadInput([Mistake("--kubernetes", rule)])
    with connected() as client:
        if client.in_containers():
            rule = "runs jobs in pods, which it does not reach into: it has no sessions. Run `grus dev` on a"
            raise NotAllowed(f"The server {client.address} {rule} machine with a Grus server of its own")
        given, named = env_options.variables(env or []), env_options.secrets(secret or [])
        wanted = _wanted(gpu, queue, name, longest, idle, SHELL if shell else "lab", given)
        wanted |= {"secrets": named} if named else {}
        if not job and output is Format.TABLE:
            env_options.tell(given, named)
        found = find_job(client, job) if job else client.submit(wanted).job
        if found.phase == Phase.PAUSED:
            found = client.resume(found.id)
        in_a_shell = found.run.split()[-1:] == [SHELL]
        way = _ready(client, found, quiet=output is Format.JSON)
        if in_a_shell and output is Format.TABLE:
            from grus.cli.commands.dev_terminal import attached

            raise typer.Exit(attached(client, found.id, way))
        told = {"job": found.id, "address": way.url, "origin": way.origin}
        emit(told, output, lambda: say(way.url))
    if output is Format.TABLE:
        _lead_on(found.id, way.url, open_=open_)


def _wanted(
    gpu: str, queue: str, name: str, longest: str, idle: str, kind: str, env: dict[str, str]
) -> dict[str, object]:
    from grus.sdk.client import python_first

    policy = {} if idle in ("0", "") else {"idle": {"for": idle, "action": "pause"}}
    limit = {"max_runtime": longest} if longest else {}
    return {
        "type": "dev",
        "name": name,
        "queue": queue,
        "run": [*SESSION, kind],
        "launch": "once",
        "resources": {"gpu": gpu},
        "workdir": os.getcwd(),
        "env": {"PATH": python_first(os.environ), **env},
        **policy,
        **limit,
    }


def _ready(client: "Client", job: "JobOut", *, quiet: bool) -> "SessionOut":
    """The way in, once there is one. An interrupt leaves the session where it is."""
    if not quiet:
        hint(f"[grus] session {job.id} in {job.queue}; waiting until it is ready …")
    began, told = time.monotonic(), ""
    while True:
        try:
            return client.session(job.id)
        except Conflict:
            now = client.job(job.id)
        if now.phase in TERMINAL or now.type != "dev":
            raise Conflict(_ended(now))
        if not quiet and now.phase not in HOLDING and now.reason != told and _waited(began):
            told = now.reason
            hint(f"[grus] {now.phase}: {now.reason} (Ctrl-C leaves it; `grus dev {job.id}` opens it)")
        time.sleep(LOOK)


def _waited(began: float) -> bool:
    return time.monotonic() > began + QUIET


def _ended(job: "JobOut") -> str:
    if job.type != "dev":
        return f"{job.id} is no development session, but a job of type {job.type}; `grus attach` follows it."
    return f"Session {job.id} {job.phase}: {job.reason or 'no reason given'}. See `grus logs {job.id}`."


def _lead_on(job: str, address: str, *, open_: bool) -> None:
    if open_ and for_people() and has_screen():
        import webbrowser

        webbrowser.open(address)
    hint(f"It opens once, within a minute. Again: grus dev {job} · end it: grus stop {job}")


def _write_training(notebook: Path, gpu: str, queue: str, output: Format) -> None:
    from grus.interactive.notebooks import training

    try:
        text = notebook.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput([Mistake(str(notebook), f"cannot be read: {error}")]) from None
    made = training(text, notebook.stem, gpu=gpu, queue=queue)
    files = {notebook.with_name(name): content for name, content in made.files.items()}
    if there := [str(file) for file in files if file.exists()]:
        rule = "is there already; move it away, or rename the notebook"
        raise BadInput([Mistake(file, rule) for file in there])
    for file, content in files.items():
        file.write_text(content, encoding="utf-8")
    told = {"files": [str(file) for file in files], "left_out": list(made.left_out)}
    emit(told, output, lambda: _tell_written(list(files), made.left_out))


def _tell_written(files: list[Path], left_out: tuple[str, ...]) -> None:
    for file in files:
        say(str(file))
    for line in left_out:
        hint(f"left out: {line}")
    job = next(file for file in files if file.suffix == ".yaml")
    hint(f"next: grus submit {job} --plan · grus submit {job}")
