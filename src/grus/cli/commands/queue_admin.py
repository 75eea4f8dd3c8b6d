"""The verbs for queues: list, show, set, members, delete."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from grus.cli.connection import complete_queue, connected
from grus.cli.render.output import (
    Format,
    Output,
    emit,
    examples,
    fields,
    hint,
    number,
    plain_number,
    say,
    table,
)
from grus.model.errors import BadInput, Mistake, NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grus.api.wire_types.pool import QueueIn, QueueOut
    from grus.sdk.client import Client

PANEL = "Pool"
NONE = "none"
"""Removes a rule: the same word for every option."""
DEFAULT = "default"
RULES = (
    "parent",
    "reserved",
    "weight",
    "limit",
    "nodes",
    "members",
    "max_priority",
    "max_runtime",
    "dev_limit",
    "idle",
    "oversubscribe",
)
"""Settings that `queue set` leaves as they are unless they are given (and the quota)."""
SHOWN_MEMBERS = 4
queue = typer.Typer(help="Manage queues: quotas, limits and members.", rich_markup_mode="rich")
QueueName = Annotated[str, typer.Argument(help="Name of the queue.", autocompletion=complete_queue)]
Member = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")]


def add_to(app: typer.Typer) -> None:
    app.add_typer(queue, name="queue", rich_help_panel=PANEL)


@queue.callback(invoke_without_command=True)
def _queues(context: typer.Context, output: Output = Format.TABLE) -> None:
    if context.invoked_subcommand is None:
        list_queues(output)


@queue.command("list", epilog=examples("grus queue list", "grus queue list -o json"))
def list_queues(output: Output = Format.TABLE) -> None:
    """List queues: quota, limit, GPUs held, members."""
    from grus.cli.render.pool_view import QUEUE_HEADINGS, queue_rows, queue_tree

    with connected() as client:
        queues = client.queues()

    def show() -> None:
        both = zip(queue_rows(queues), queue_tree(queues), strict=True)
        rows = [(*row[:2], _limit(one), *row[2:], members_words(one, queues)) for row, (_, one) in both]
        headings = (*QUEUE_HEADINGS[:2], "LIMIT", *QUEUE_HEADINGS[2:], "MEMBERS")
        table(headings, rows, empty="No queues.")

    emit(queues, output, show)


@queue.command("show", epilog=examples("grus queue show vision", "grus queue show vision -o json"))
def show_queue(name: QueueName, output: Output = Format.TABLE) -> None:
    """Show one queue: every rule, members, GPUs held."""
    with connected() as client:
        queues = client.queues()
    found = _found(queues, name)

    def show() -> None:
        fields(
            [
                ("Name", found.name),
                ("Parent", found.parent or NONE),
                ("Members", members_words(found, queues, most=len(found.members))),
                ("Quota", _quota_words(found)),
                ("Reserved", number(found.reserved)),
                ("Weight", number(found.weight)),
                ("Limit", _limit(found)),
                ("Nodes of its own", ", ".join(found.nodes)),
                ("Highest priority", found.max_priority),
                ("Longest run", found.max_runtime or NONE),
                ("Longest session", found.dev_limit or NONE),
                ("Idle jobs", ", ".join(f"{k} {v}" for k, v in (found.idle or {}).items()) or NONE),
                ("Held", f"{number(found.held)}, {number(found.borrowed)} of them borrowed"),
                ("Fair share", number(found.fair_share)),
                ("Defined in", "config.toml" if found.configured else ""),
                ("Jobs", f"{found.running} running, {found.waiting} waiting"),
            ]
        )

    emit(found, output, show)


@queue.command(
    "set",
    epilog=examples(
        "grus queue set vision --quota 4 --reserved 2 --weight 2 --limit 8 --parent research",
        "grus queue set vision --quota A100=4,any=8",
        "grus queue set vision --member ada --member grace",
        "grus queue set vision --limit none --parent none --member none",
        "grus queue set vision --idle below=10%,for=30m,action=pause",
    ),
)
def set_queue(
    name: QueueName,
    quota: Annotated[
        str | None, typer.Option(help="Deserved GPUs: 4, or by type A100=4,any=8; none removes it.")
    ] = None,
    reserved: Annotated[
        str | None, typer.Option(help="Part of the quota that is never lent; none removes it.")
    ] = None,
    weight: Annotated[float | None, typer.Option(help="Its part of what the quotas leave.")] = None,
    limit: Annotated[str | None, typer.Option(help="Most GPUs it may hold; none removes it.")] = None,
    parent: Annotated[str | None, typer.Option(help="The queue above it; none for the top.")] = None,
    member: Annotated[
        list[str] | None,
        typer.Option(help="All members; may be repeated; none opens it to all users."),
    ] = None,
    max_priority: Annotated[int | None, typer.Option(help="Highest priority that jobs may ask for.")] = None,
    max_runtime: Annotated[
        str | None, typer.Option(help="Longest run of a job, such as 3d; none removes it.")
    ] = None,
    dev_limit: Annotated[
        str | None, typer.Option(help="Longest development session, such as 8h; none removes it.")
    ] = None,
    idle: Annotated[
        str | None,
        typer.Option(
            help="For jobs whose GPUs idle, such as below=10%,for=30m,action=pause; none removes it."
        ),
    ] = None,
    oversubscribe: Annotated[bool | None, typer.Option(help="Allow quotas above what is there.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Add a queue, or change the given settings.

    `none` removes a setting. `queue add-member` and `queue remove-member` change one member.
    """
    from grus.api.parsing.validation_errors import read
    from grus.api.wire_types.pool import QueueIn

    given = {
        "quota": None if quota is None else _quota(quota),
        "reserved": None if reserved is None else _number_or_none("reserved", reserved),
        "weight": None if weight is None else plain_number(weight),
        "limit": None if limit is None else _number_or_none("limit", limit),
        "parent": parent,
        "members": None if not member else _members(member),
        "max_priority": max_priority,
        "max_runtime": max_runtime,
        "dev_limit": dev_limit,
        "idle": None if idle is None else _pairs("idle", idle),
        "oversubscribe": oversubscribe,
    }
    changed = {key: value for key, value in given.items() if value is not None}
    with connected() as client:
        before = client.queues()
        merged = {**_rules_of(before, name), **changed}
        wanted = {key: value for key, value in merged.items() if value != NONE}
        made = _put(client, name, read(QueueIn, wanted, whole="queue"))
        after = client.queues() if quota is not None and name != DEFAULT else before

    def show() -> None:
        say(_queue_words(made))
        if made.configured:
            hint(set_again(name))
        if effect := default_effect(before, after):
            hint(effect)

    emit(made, output, show)


def _put(client: "Client", name: str, queue: "QueueIn") -> "QueueOut":
    """Set the queue. Errors name the option of the command line in place of the field."""
    from grus.model.queues import SET_OVERSUBSCRIBE

    try:
        return client.put_queue(name, queue)
    except BadInput as error:
        raise BadInput(
            [
                replace(m, rule=m.rule.replace(SET_OVERSUBSCRIBE, "give --oversubscribe"))
                for m in error.mistakes
            ]
        ) from None


@queue.command("add-member", epilog=examples("grus queue add-member vision ada"))
def add_member(name: QueueName, user: Member, output: Output = Format.TABLE) -> None:
    """Let one more user submit to a queue."""
    with connected() as client:
        opened = not _found(client.queues(), name).members
        made = client.add_member(name, user)
    closed = f" {name} was open to all before." if opened else ""
    emit(made, output, lambda: _tell_members(made, closed))


@queue.command("remove-member", epilog=examples("grus queue remove-member vision ada"))
def remove_member(name: QueueName, user: Member, output: Output = Format.TABLE) -> None:
    """Remove one user from a queue; running jobs stay."""
    with connected() as client:
        made = client.remove_member(name, user)
    emit(made, output, lambda: _tell_members(made))


def _tell_members(made: "QueueOut", more: str = "") -> None:
    say(f"Members of {made.name}: {', '.join(made.members)}.{more}")
    if made.configured:
        hint(set_again(made.name))


@queue.command("delete", epilog=examples("grus queue delete vision"))
def delete_queue(name: QueueName, output: Output = Format.TABLE) -> None:
    """Remove a queue that has no live jobs."""
    with connected() as client:
        configured = any(one.configured for one in client.queues() if one.name == name)
        client.delete_queue(name)

    def show() -> None:
        say(f"The queue {name} is gone.")
        if configured:
            hint(set_again(name))

    emit({"deleted": name, "configured": configured}, output, show)


def set_again(name: str) -> str:
    """Sentence about a change of a queue that config.toml defines."""
    return f"config.toml defines {name} and sets it again at the next start of the server: change it there."


# ------------------------------------------------------------------------------------------------- reading


def _found(queues: "Sequence[QueueOut]", name: str) -> "QueueOut":
    for one in queues:
        if one.name == name:
            return one
    raise NotFound(f"There is no queue {name!r}. `grus queue list` lists the ones that there are.")


def _rules_of(queues: "Sequence[QueueOut]", name: str) -> dict[str, object]:
    """The rules of the queue as they are; nothing for a new one."""
    for found in queues:
        if found.name == name:
            rules = {key: value for key in RULES if (value := getattr(found, key)) is not None}
            return {**rules, "quota": found.quota_by_type or found.quota}
    return {}


def default_effect(before: "Sequence[QueueOut]", after: "Sequence[QueueOut]") -> str:
    """Sentence about what a change of another queue leaves for the default one; "" if the same."""
    then = next((one.quota for one in before if one.name == DEFAULT), None)
    now = next((one.quota for one in after if one.name == DEFAULT), None)
    if then is None or now is None or then == now:
        return ""
    quota = f"quota {number(now)} (before: {number(then)})"
    text = f"Queue {DEFAULT} now has {quota}, which is what the other queues leave."
    return text if now else f"{text} Jobs that name no queue run only on GPUs that others leave idle."


# ------------------------------------------------------------------------------------------------- writing


def _members(names: list[str]) -> list[str]:
    if NONE in names and len(names) > 1:
        raise BadInput([Mistake("member", "is either none or names of users", ", ".join(names))])
    return [] if names == [NONE] else names


def _quota(text: str) -> object:
    """`4`, `A100=4,any=8`, or none."""
    if "=" not in text:
        return _number_or_none("quota", text)
    pairs = [part.split("=", 1) for part in text.split(",")]
    if any(len(pair) != 2 for pair in pairs):
        raise BadInput([Mistake("quota", "is written 4, or by type as A100=4,any=8", text)])
    return {kind.strip(): _number("quota", amount) for kind, amount in pairs}


def _pairs(field: str, text: str) -> object:
    """`below=10%,for=30m`, or none."""
    if text == NONE:
        return text
    pairs = [part.split("=", 1) for part in text.split(",")]
    if any(len(pair) != 2 for pair in pairs):
        raise BadInput([Mistake(field, "is written as below=10%,for=30m,action=pause", text)])
    return {key.strip(): value.strip() for key, value in pairs}


def _number_or_none(field: str, text: str) -> float | str:
    return text if text == NONE else _number(field, text)


def _number(field: str, text: str) -> float:
    try:
        return plain_number(float(text))
    except ValueError:
        raise BadInput([Mistake(field, "must be a number of GPUs, such as 4", text)]) from None


# --------------------------------------------------------------------------------------------------- words


def members_words(one: "QueueOut", queues: "Sequence[QueueOut]", most: int = SHOWN_MEMBERS) -> str:
    """Names of those who may submit: its own members, those of the queue above it, or all."""
    if one.members:
        more = len(one.members) - most
        return ", ".join(one.members[:most]) + (f" and {more} more" if more > 0 else "")
    by_name = {other.name: other for other in queues}
    above = by_name.get(one.parent or "")
    while above is not None:
        if above.members:
            return f"those of {above.name}"
        above = by_name.get(above.parent or "")
    return "all"


def _limit(one: "QueueOut") -> str:
    return NONE if one.limit is None else number(one.limit)


def _quota_words(one: "QueueOut") -> str:
    by_type = ", ".join(f"{kind} {number(amount)}" for kind, amount in one.quota_by_type.items())
    return number(one.quota) + (f" ({by_type})" if by_type else "")


def _queue_words(made: "QueueOut") -> str:
    limit = "" if made.limit is None else f", at most {number(made.limit)}"
    above = f", under {made.parent}" if made.parent else ""
    figures = f"quota {number(made.quota)}, reserved {number(made.reserved)}, weight {number(made.weight)}"
    idle = f"; idle: {', '.join(f'{k} {v}' for k, v in made.idle.items())}" if made.idle else ""
    who = f"; members: {', '.join(made.members)}" if made.members else ""
    return f"{made.name}: {figures}{limit}{above}{idle}{who}"
