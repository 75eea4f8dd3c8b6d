"""The verbs for secrets. Values come from a prompt or the standard input, never from argv."""

import os
import sys
from typing import Annotated

import typer

from grus.cli.connection import connected
from grus.cli.render.output import Format, Output, emit, examples, local, say, table
from grus.model.errors import BadInput, Mistake

PANEL = "People"
Name = Annotated[str, typer.Argument(help="Name of the secret; HF_TOKEN means hf-token.")]

secret = typer.Typer(help="Set values that jobs get by name.", rich_markup_mode="rich")


def add_to(app: typer.Typer) -> None:
    app.add_typer(secret, name="secret", rich_help_panel=PANEL)


@secret.callback(invoke_without_command=True)
def _secrets(context: typer.Context) -> None:
    if os.environ.get("GRUS_KUBERNETES"):
        from grus.api.inputs.secrets import ON_KUBERNETES

        raise BadInput([Mistake("secrets", ON_KUBERNETES)])
    if context.invoked_subcommand is None:
        list_secrets()


@secret.command("list", epilog=examples("grus secret list"))
def list_secrets(output: Output = Format.TABLE) -> None:
    """List names of my secrets; values are never shown."""
    with connected() as client:
        found = client.secrets()
    rows = [(one.name, local(one.set_at)) for one in found]
    emit(found, output, lambda: table(("NAME", "SET"), rows, empty="No secrets."))


@secret.command("set", epilog=examples("grus secret set hf-token", "grus secret set hf-token < token.txt"))
def set_secret(name: Name, output: Output = Format.TABLE) -> None:
    """Set one of my secrets.

    It is read from a prompt or the standard input. A job names it under `secrets`; its workers then have the
    value in their environment.
    """
    from grus.api.inputs.secrets import secret_name

    wanted = secret_name(name)
    value = _value(wanted)
    with connected() as client:
        client.put_secret(wanted, value)
    hint = f"The secret {wanted} is set. A job takes it with secrets: {{VARIABLE: {wanted}}}"
    emit({"set": wanted}, output, lambda: say(hint))


@secret.command("delete", epilog=examples("grus secret delete hf-token"))
def delete_secret(name: Name, output: Output = Format.TABLE) -> None:
    """Delete a secret of mine; running jobs keep it."""
    from grus.api.inputs.secrets import secret_name

    wanted = secret_name(name)
    with connected() as client:
        client.delete_secret(wanted)
    emit({"deleted": wanted}, output, lambda: say(f"The secret {wanted} is deleted."))


def _value(name: str) -> str:
    from grus.api.inputs.secrets import LARGEST_SECRET
    from grus.sdk.bounded_read import STDIN, read_text

    if sys.stdin.isatty():
        return str(typer.prompt(f"Value of {name}", hide_input=True, err=True))
    try:
        # A final line break is of the file, not of the value.
        return read_text(STDIN, LARGEST_SECRET + 1).removesuffix("\n")
    except UnicodeDecodeError:
        raise BadInput([Mistake("value", "must be text in UTF-8")]) from None
