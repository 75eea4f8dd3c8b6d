"""The verb that opens the dashboard: signed in, without a token in any address."""

import os
import sys
from typing import Annotated

import typer

from grus.cli.render.output import Format, Output, emit, examples, for_people, hint, say

PANEL = "Server"


def add_to(app: typer.Typer) -> None:
    app.command(
        rich_help_panel=PANEL,
        epilog=examples("grus dashboard", "grus dashboard --no-open", "grus dashboard -o json"),
    )(dashboard)


def dashboard(
    open_: Annotated[
        bool, typer.Option("--open/--no-open", help="Open a browser, where there is a screen.")
    ] = True,
    output: Output = Format.TABLE,
) -> None:
    """Open the dashboard, or print its address.

    The address signs in once, within a minute.
    """
    from grus.cli.connection import connected

    with connected() as client:
        address = f"{client.address}/sign-in?fresh=1#code={client.sign_in_code()}"
    emit({"address": address}, output, lambda: say(address))
    if output is Format.TABLE and open_ and for_people() and has_screen():
        import webbrowser

        webbrowser.open(address)
    if output is Format.TABLE:
        hint("It signs you in once, within a minute. Later: the same address without what follows /sign-in.")


def has_screen() -> bool:
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
