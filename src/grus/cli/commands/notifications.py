"""The verbs for notifications: receivers of messages about jobs, and a test of them."""

from typing import Annotated

import typer

from grus.cli.connection import connected
from grus.cli.render.output import Format, Output, emit, examples, local, table

PANEL = "Server"
NONE = "The server has no receivers. Name some under [notifications] in config.toml, then restart it."
notifications = typer.Typer(help="Show and test receivers of notifications.", rich_markup_mode="rich")


def add_to(app: typer.Typer) -> None:
    app.add_typer(notifications, name="notifications", rich_help_panel=PANEL)


@notifications.callback(invoke_without_command=True)
def _receivers(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_receivers()


@notifications.command("list", epilog=examples("grus notifications list"))
def list_receivers(output: Output = Format.TABLE) -> None:
    """List webhooks and e-mail, and which of them fail.

    They are configured under [notifications] in config.toml.
    """
    with connected() as client:
        found = client.notifications()
    rows = [
        (
            one.name,
            one.channel,
            one.target,
            ", ".join(one.events),
            str(one.delivered),
            local(one.last_at) or "never",
            f"{one.error} (since {local(one.failing_since)}, {one.failures} times)" if one.failures else "ok",
        )
        for one in found
    ]
    heads = ("NAME", "CHANNEL", "TARGET", "EVENTS", "DELIVERED", "LAST", "STATE")
    emit(found, output, lambda: table(heads, rows, empty=NONE))


@notifications.command(
    "test", epilog=examples("grus notifications test", "grus notifications test ops -o json")
)
def send_test(
    receiver: Annotated[str, typer.Argument(help="Name of the receiver; all by default.")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Send a test message to receivers.

    The exit code is 1 if one of them does not accept it, or if there are none.
    """
    with connected() as client:
        found = client.test_notifications(receiver or None)
    rows = [(one.receiver, "delivered" if one.delivered else f"failed: {one.error}") for one in found]
    emit(found, output, lambda: table(("NAME", "RESULT"), rows, empty=NONE))
    if not found or not all(one.delivered for one in found):
        raise typer.Exit(1)
