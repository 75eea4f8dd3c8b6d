"""The verbs for people: users, their tokens, and the audit log of changes."""

from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli.connection import connected
from grus.cli.render.output import (
    Format,
    Output,
    emit,
    examples,
    for_people,
    hint,
    local,
    number,
    plain_number,
    say,
    table,
)
from grus.model.errors import BadInput, Mistake
from grus.model.texts.plural_words import counted

if TYPE_CHECKING:
    from grus.api.wire_types.users import TokenOut
    from grus.sdk.client import Client

PANEL = "People"
NONE = "none"
"""Removes a setting, as in `grus queue set`."""
UNIX_USERS = "Unix users"
"""Beginning of the isolation that a server of root reports: each user needs a Unix account."""
Name = Annotated[str, typer.Argument(help="Name of the user.")]

user = typer.Typer(help="Manage users and their limits.", rich_markup_mode="rich")
token = typer.Typer(help="Manage the tokens of users.", rich_markup_mode="rich")


def add_to(app: typer.Typer) -> None:
    app.add_typer(user, name="user", rich_help_panel=PANEL)
    app.add_typer(token, name="token", rich_help_panel=PANEL)
    shown = examples(
        "grus audit", "grus audit --actor grace --limit 20", "grus audit --target vision -o json"
    )
    app.command(rich_help_panel=PANEL, epilog=shown)(audit)


@user.callback(invoke_without_command=True)
def _users(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_users()


@user.command("list", epilog=examples("grus user list"))
def list_users(output: Output = Format.TABLE) -> None:
    """List users and their roles."""
    with connected() as client:
        users = client.users()
    rows = [(one.name, one.role, one.unix_user, _limit(one.max_gpus)) for one in users]
    headings = ("NAME", "ROLE", "UNIX USER", "MAX GPUS")
    emit(users, output, lambda: table(headings, rows, empty="No users."))


def _limit(gpus: float | None) -> str:
    return "none" if gpus is None else number(gpus)


@user.command(
    "set",
    epilog=examples(
        "grus user set ada --role member --max-gpus 4",
        "grus user set ada --max-gpus none",
        "grus user set grace --role admin",
    ),
)
def set_user(
    name: Name,
    role: Annotated[
        str | None,
        typer.Option(help="viewer looks, member submits, admin does everything; a new user is member."),
    ] = None,
    unix_user: Annotated[
        str | None, typer.Option(help="Unix user of the jobs, when the server is root; none removes it.")
    ] = None,
    max_gpus: Annotated[
        str | None, typer.Option(help="GPUs that all jobs of the user may hold; none removes the limit.")
    ] = None,
    accept_shared_account: Annotated[
        bool,
        typer.Option("--accept-shared-account", help="Accept that jobs of all users can read each other."),
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Add a user, or change the given settings.

    Where jobs share the server's Unix account, a second user who submits is refused unless that is accepted.
    """
    from grus.api.parsing.validation_errors import read
    from grus.api.wire_types.users import UserIn

    given = {
        "role": role,
        "unix_user": "" if unix_user == NONE else unix_user,
        "max_gpus": None if max_gpus is None else _gpus_or_none(max_gpus),
        "accept_shared_account": True if accept_shared_account else None,
    }
    changed = {key: value for key, value in given.items() if value is not None}
    with connected() as client:
        known = _settings_of(client, name)
        merged = {**known, **changed}
        wanted = {key: None if value == NONE else value for key, value in merged.items()}
        made = client.put_user(name, read(UserIn, wanted, whole="user"))
        how = client.status().mechanisms.get("isolation", "")

    def tell() -> None:
        most = (
            "" if made.max_gpus is None else f" and may hold {counted(number(made.max_gpus), 'GPU')} at most"
        )
        say(f"{made.name} is {made.role}{most}." + ("" if known else f" Next: grus token new {made.name}"))
        if how:
            say(f"Isolation of jobs: {how}.")
        if how.startswith(UNIX_USERS) and made.role == "member" and not made.unix_user:
            hint(
                f"Jobs of {made.name} are refused until their Unix account is set: "
                f"`grus user set {made.name} --unix-user ACCOUNT`."
            )

    emit(made, output, tell)


def _settings_of(client: "Client", name: str) -> dict[str, object]:
    """The settings of the user as they are; nothing for a new one."""
    for found in client.users():
        if found.name == name:
            kept = {"role": found.role, "unix_user": found.unix_user, "max_gpus": found.max_gpus}
            return {key: value for key, value in kept.items() if value is not None}
    return {}


def _gpus_or_none(text: str) -> float | str:
    if text == NONE:
        return text
    try:
        return plain_number(float(text))
    except ValueError:
        raise BadInput([Mistake("max_gpus", "must be a number of GPUs, such as 4, or none", text)]) from None


@user.command("delete", epilog=examples("grus user delete ada", "grus user delete ada --stop-jobs"))
def delete_user(
    name: Name,
    stop_jobs: Annotated[
        bool, typer.Option("--stop-jobs", help="Stop jobs of the user that have not ended.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Remove a user with all tokens and memberships.

    Refused while the user has jobs that have not ended. With --stop-jobs the tokens end first, then the jobs.
    """
    with connected() as client:
        client.delete_user(name, stop_jobs=stop_jobs)
    emit({"deleted": name}, output, lambda: say(f"{name} and all tokens of {name} are gone."))


@token.callback(invoke_without_command=True)
def _tokens(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_tokens()


@token.command("list", epilog=examples("grus token list"))
def list_tokens(output: Output = Format.TABLE) -> None:
    """List tokens: owner, purpose, expiry; never the secrets."""
    with connected() as client:
        tokens = client.tokens()
    rows = [
        (
            one.digest[:12],
            one.user,
            one.label,
            local(one.created_at),
            local(one.expires_at) or "never",
            "expired" if one.expired else "valid",
        )
        for one in tokens
    ]
    headings = ("DIGEST", "USER", "LABEL", "MADE", "EXPIRES", "STATE")
    emit(tokens, output, lambda: table(headings, rows, empty="No tokens."))


@token.command("new", epilog=examples("grus token new ada --label laptop", "grus token new ci --expires 30d"))
def new_token(
    name: Name,
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    expires: Annotated[str, typer.Option(help="Valid for so long, such as 30d; for ever by default.")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Make a token and print its secret, this once."""
    from grus.api.parsing.validation_errors import read
    from grus.api.wire_types.users import TokenIn

    wanted = {"user": name, "label": label, **({"expires": expires} if expires else {})}
    with connected() as client:
        made = client.new_token(read(TokenIn, wanted, whole="token"))
    emit(made, output, lambda: say(made.secret or ""))
    if output is Format.TABLE and for_people():
        hint(f"Keep it: it is not shown again. {_use(made)} Its owner runs `grus login URL` with it.")


def _use(made: "TokenOut") -> str:
    return "It never expires." if made.expires_at is None else f"It expires at {local(made.expires_at)}."


@token.command("delete", epilog=examples("grus token delete 3f9a2c"))
def delete_token(
    digest: Annotated[str, typer.Argument(help="Digest of the token, or its beginning (`token list`).")],
    output: Output = Format.TABLE,
) -> None:
    """Revoke a token."""
    from grus.cli.connection import the_one

    with connected() as client:
        found = the_one("token", digest, [one.digest for one in client.tokens()])
        client.delete_token(found)
    emit({"deleted": found}, output, lambda: say(f"The token {found[:12]} is revoked."))


def audit(
    actor: Annotated[str, typer.Option(help="Changes by this user.")] = "",
    target: Annotated[str, typer.Option(help="Changes of this user, queue, node, job or token.")] = "",
    limit: Annotated[int, typer.Option(help="Number of records.", min=1, max=1000)] = 50,
    before: Annotated[int | None, typer.Option(help="Records older than this number.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """List changes by users, newest last; for administrators.

    Covers users, tokens, queues, nodes, and actions on other people's jobs.
    """
    with connected() as client:
        found = client.audit(actor=actor, target=target, before=before, limit=limit)[::-1]
    rows = [(one.seq, local(one.at), one.actor, one.action, one.target, one.text) for one in found]
    headings = ("NUMBER", "TIME", "ACTOR", "ACTION", "TARGET", "CHANGE")
    emit(found, output, lambda: table(headings, rows, empty="No changes."))
