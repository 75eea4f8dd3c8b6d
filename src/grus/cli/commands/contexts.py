"""The verbs for logins: `login` checks and keeps one, `context` lists them and chooses."""

import ssl
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli.render.output import Format, Output, emit, examples, for_people, say, table
from grus.model.errors import BadInput, Mistake, NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grus.api.wire_types.pool import StatusOut
    from grus.sdk.contexts import Context, Contexts

PANEL = "People"
NONE = "none"
"""No context: the server of this machine."""
MOST_TOKEN = 4096
MOST_CERTIFICATES = 1024 * 1024
Name = Annotated[str, typer.Argument(help="Name of the context; none for this machine's server.")]

context = typer.Typer(help="Manage logins to servers.", rich_markup_mode="rich")


def add_to(app: typer.Typer) -> None:
    shown = examples(
        "grus login https://gpu.example.org:7600",
        "grus login https://gpu.example.org:7600 --context lab --ca ca.pem",
        "grus login https://gpu.example.org:7600 --token-file - < token",
    )
    app.command(rich_help_panel=PANEL, epilog=shown)(login)
    app.add_typer(context, name="context", rich_help_panel=PANEL)


def login(
    server: Annotated[str, typer.Argument(metavar="URL", help="Address of the server.")],
    name: Annotated[
        str, typer.Option("--context", help="Name to keep it under; the server's host by default.")
    ] = "",
    ca: Annotated[
        Path | None, typer.Option(help="File with the server's certificate, or its authority's.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with the token; - for standard input. Else GRUS_TOKEN, else asked."),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Log in to a server and make it current.

    The token is checked, then kept with the address and the certificate in contexts.json (mode 0600).
    `--token-file -` reads it from standard input, as `grus login URL --token-file - < token`. A repeated
    login to the same address keeps the token, for example with a renewed certificate (`--ca`).
    """
    import os
    from urllib.parse import urlsplit

    from grus.api.parsing.fields import name as check_name
    from grus.sdk.connection_errors import require_address, require_encrypted
    from grus.sdk.contexts import Context

    require_encrypted(require_address(server), os.environ)
    chosen = name or (urlsplit(server).hostname or "").replace(":", "-").replace(".", "-")
    try:
        check_name(chosen)
    except ValueError as error:
        raise BadInput([Mistake("context", str(error), chosen)]) from None
    if chosen == NONE:
        raise BadInput([Mistake("context", "is the word for no context; choose another name", chosen)])
    known = _read()
    kept = known.by_name.get(chosen)
    again = kept.token if kept is not None and kept.server == server.rstrip("/") else ""
    made = Context(server.rstrip("/"), _token(token_file, again), _certificates(ca))
    status = _checked(made)
    _write(replace(known, current=chosen, by_name={**known.by_name, chosen: made}))
    told = {"context": chosen, "server": made.server, "user": status.user, "role": status.role}
    emit(
        told,
        output,
        lambda: say(f"Logged in to {made.server} as {status.user} ({status.role}); context {chosen}."),
    )


@context.callback(invoke_without_command=True)
def _contexts(context_: typer.Context) -> None:
    if context_.invoked_subcommand is None:
        list_contexts()


@context.command("list", epilog=examples("grus context list", "grus context list -o json"))
def list_contexts(output: Output = Format.TABLE) -> None:
    """List logins; the current one has a star."""
    known = _read()
    found = [
        {"name": name, "server": one.server, "ca": bool(one.ca), "current": name == known.current}
        for name, one in sorted(known.by_name.items())
    ]
    rows = [("*" if one["current"] else "", one["name"], one["server"]) for one in found]
    empty = "No contexts. `grus login URL` makes one."
    emit(found, output, lambda: table(("CURRENT", "NAME", "SERVER"), rows, empty=empty))


@context.command("use", epilog=examples("grus context use lab", "grus context use none"))
def use_context(name: Name, output: Output = Format.TABLE) -> None:
    """Use a login from now on."""
    known = _read()
    chosen = "" if name == NONE else _existing(known.by_name, name)
    _write(replace(known, current=chosen))
    where = known.by_name[chosen].server if chosen else "the server of this machine"
    emit({"current": chosen or None}, output, lambda: say(f"Commands go to {where} from now on."))


@context.command("delete", epilog=examples("grus context delete lab"))
def delete_context(name: Name, output: Output = Format.TABLE) -> None:
    """Forget a login; its token stays valid."""
    known = _read()
    _existing(known.by_name, name)
    others = {other: one for other, one in known.by_name.items() if other != name}
    _write(replace(known, current="" if known.current == name else known.current, by_name=others))
    emit(
        {"deleted": name},
        output,
        lambda: say(f"The context {name} is gone. `grus token delete` revokes a token."),
    )


def _existing(known: "Mapping[str, Context]", name: str) -> str:
    if name not in known:
        raise NotFound(f"There is no context {name!r}; there are: {', '.join(sorted(known)) or 'none'}.")
    return name


def _read() -> "Contexts":
    from grus.sdk.contexts import read_contexts
    from grus.sdk.state_paths import places

    return read_contexts(places())


def _write(contexts: "Contexts") -> None:
    from grus.sdk.contexts import contexts_file
    from grus.sdk.state_paths import places
    from grus.store.durable_files import write_secret

    write_secret(contexts_file(places()), contexts.as_json().encode())


def _token(file: Path | None, kept: str) -> str:
    """Read the token from the file, else from GRUS_TOKEN, else take the kept one, else ask without echo.

    The command line is never a source.
    """
    import os

    from grus.sdk.bounded_read import read_text

    if file is not None:
        try:
            text = read_text(str(file), MOST_TOKEN)
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput([Mistake("--token-file", f"cannot be read: {error}", str(file))]) from None
    elif not (text := os.environ.get("GRUS_TOKEN", "") or kept):
        if not (for_people() and sys.stdin.isatty()):
            rule = "is missing: give --token-file FILE (- for standard input), or set GRUS_TOKEN"
            raise BadInput([Mistake("token", rule)])
        text = str(typer.prompt("Token", hide_input=True))
    if not (token := text.strip()) or not token.isascii() or not token.isprintable() or " " in token:
        raise BadInput([Mistake("token", "must be one line as `grus token new` printed it")])
    return token


def _certificates(file: Path | None) -> str:
    """The text of a PEM file. Raises BadInput if it holds no certificate."""
    from grus.sdk.bounded_read import read_text

    if file is None:
        return ""
    try:
        text = read_text(file, MOST_CERTIFICATES)
        ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError):
        raise BadInput([Mistake("--ca", "is no file with certificates in PEM", str(file))]) from None
    except OSError as error:
        raise BadInput([Mistake("--ca", f"cannot be read: {error.strerror}", str(file))]) from None
    return text


def _checked(made: "Context") -> "StatusOut":
    """The server's answer to this login. Raises Unreachable or NotLoggedIn."""
    from grus.sdk.client import Client

    with Client(context=made, patience=0.0) as client:
        return client.status()
