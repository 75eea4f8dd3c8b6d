"""The verbs for people: who may use the pool, and the tokens by which they are known."""

from typing import Annotated

import typer

from grus.cli.access import connected
from grus.cli.output import Format, Output, emit, examples, for_people, hint, local, say, table

PANEL = "People"
Name = Annotated[str, typer.Argument(help="Name of the user.")]

user = typer.Typer(help="Who may use the pool.", rich_markup_mode="rich")
token = typer.Typer(help="The secrets by which users are known.", rich_markup_mode="rich")


def add_to(app: typer.Typer) -> None:
    app.add_typer(user, name="user", rich_help_panel=PANEL)
    app.add_typer(token, name="token", rich_help_panel=PANEL)


@user.callback(invoke_without_command=True)
def _users(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_users()


@user.command("list", epilog=examples("grus user list"))
def list_users(output: Output = Format.TABLE) -> None:
    """List users and their roles."""
    with connected() as client:
        users = client.users()
    rows = [(one.name, one.role, one.unix_user) for one in users]
    emit(users, output, lambda: table(("NAME", "ROLE", "UNIX USER"), rows, empty="No users."))


@user.command("set", epilog=examples("grus user set ada --role member", "grus user set grace --role admin"))
def set_user(
    name: Name,
    role: Annotated[
        str, typer.Option(help="viewer looks, member submits, admin does everything.")
    ] = "member",
    unix_user: Annotated[str, typer.Option(help="Whom the jobs run as, when the server is root.")] = "",
    accept_shared_account: Annotated[
        bool,
        typer.Option("--accept-shared-account", help="Accept that jobs of all users can read each other."),
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Add a user, or change one.

    Where jobs share the server's Unix account, a second user who submits is refused unless that is accepted.
    """
    from grus.api.wire import UserIn, read

    wanted: dict[str, object] = {"role": role, "unix_user": unix_user}
    if accept_shared_account:
        wanted["accept_shared_account"] = True
    with connected() as client:
        made = client.put_user(name, read(UserIn, wanted, whole="user"))
        how = client.status().mechanisms.get("isolation", "")

    def tell() -> None:
        say(f"{made.name} is {made.role}. Next: grus token new {made.name}")
        if how:
            say(f"Isolation of jobs: {how}.")

    emit(made, output, tell)


@user.command("delete", epilog=examples("grus user delete ada"))
def delete_user(name: Name, output: Output = Format.TABLE) -> None:
    """Remove a user with all tokens; the jobs stay."""
    with connected() as client:
        client.delete_user(name)
    emit({"deleted": name}, output, lambda: say(f"{name} and all tokens of {name} are gone."))


@token.callback(invoke_without_command=True)
def _tokens(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_tokens()


@token.command("list", epilog=examples("grus token list"))
def list_tokens(output: Output = Format.TABLE) -> None:
    """List tokens: whose, what for, until when; never the secrets."""
    with connected() as client:
        tokens = client.tokens()
    rows = [
        (one.digest[:12], one.user, one.label, local(one.created_at), local(one.expires_at) or "never")
        for one in tokens
    ]
    emit(
        tokens,
        output,
        lambda: table(("DIGEST", "USER", "LABEL", "MADE", "EXPIRES"), rows, empty="No tokens."),
    )


@token.command("new", epilog=examples("grus token new ada --label laptop", "grus token new ci --expires 30d"))
def new_token(
    name: Name,
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    expires: Annotated[str, typer.Option(help="Valid for so long, such as 30d; for ever by default.")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Make a token and print its secret, this once."""
    from grus.api.wire import TokenIn, read

    wanted = {"user": name, "label": label, **({"expires": expires} if expires else {})}
    with connected() as client:
        made = client.new_token(read(TokenIn, wanted, whole="token"))
    emit(made, output, lambda: say(made.secret or ""))
    if output is Format.TABLE and for_people():
        hint("Keep it: it is not shown again. Use it as GRUS_TOKEN.")


@token.command("delete", epilog=examples("grus token delete 3f9a2c"))
def delete_token(
    digest: Annotated[str, typer.Argument(help="Digest of the token, or its beginning (`token list`).")],
    output: Output = Format.TABLE,
) -> None:
    """Make a token worthless."""
    from grus.cli.access import the_one

    with connected() as client:
        found = the_one("token", digest, [one.digest for one in client.tokens()])
        client.delete_token(found)
    emit({"deleted": found}, output, lambda: say(f"The token {found[:12]} is worthless now."))
