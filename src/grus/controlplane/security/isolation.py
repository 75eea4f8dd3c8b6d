"""Isolation of jobs from each other and from the server, and the rule that several people need it.

Jobs that share the server's Unix account read its admin token and its state, and each other's environment
through /proc. So a second person is refused there, unless an administrator accepts it; that is kept in a file
of the state, for every later start.
"""

import json
import os
import pwd
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path

from grus.controlplane.settings import Settings
from grus.model.errors import Conflict
from grus.model.identifiers import UserName
from grus.model.interfaces import AccessRole, User
from grus.store.durable_files import write_secret

ACCEPTED = "shared-account.json"
"""File in the state: who accepted that people share one account, and when."""


class Isolation(StrEnum):
    """Mechanism that keeps jobs of different people apart."""

    PODS = "pods"
    UNIX_USERS = "Unix users"
    BUBBLEWRAP = "bubblewrap"
    NONE = "none"


def isolation(settings: Settings) -> Isolation:
    if settings.containers:
        return Isolation.PODS
    if settings.as_submitters:
        return Isolation.UNIX_USERS
    return Isolation.BUBBLEWRAP if settings.boxed else Isolation.NONE


def submitters(users: Iterable[User]) -> list[User]:
    """Users whose jobs can run; a viewer's cannot."""
    return [user for user in users if user.role is not AccessRole.VIEWER]


def accepted(settings: Settings) -> bool:
    """True if an administrator lets people share one account, in config.toml or by a command."""
    return settings.shared_account or _file(settings).exists()


def accept(settings: Settings, by: UserName, at: float) -> None:
    """Keep the decision for later starts."""
    write_secret(_file(settings), json.dumps({"by": by, "at": at}).encode() + b"\n")


def _file(settings: Settings) -> Path:
    return settings.state / ACCEPTED


REMEDY = (
    'Set isolation = "bubblewrap" under [server] in config.toml, or run the server as root and give each '
    "user a Unix user (`grus user set NAME --unix-user NAME`)"
)
READS = "can read the admin token, the server's state and other jobs' environment"


def exposure(settings: Settings, users: Iterable[User]) -> str:
    """Warn that people here can read each other's secrets; empty where jobs are isolated."""
    people = submitters(users)
    if settings.as_submitters:
        return _shared_accounts(settings, people)
    if isolation(settings) is not Isolation.NONE or len(people) < 2:
        return ""
    return (
        f"{len(people)} people submit jobs, and all jobs run as the same Unix user (uid {os.geteuid()}): "
        f"each job {READS}. {REMEDY}."
    )


def exposure_of(settings: Settings, users: Iterable[User], name: UserName) -> str:
    """Return the warning for one user: with Unix users, only those who share an account are exposed to each
    other.
    """
    if not settings.as_submitters:
        return exposure(settings, users)
    people = submitters(users)
    mine = [user for user in people if user.name == name]
    others = [user for user in people if user.name != name]
    return next(filter(None, (_shared_accounts(settings, [other, *mine]) for other in others)), "")


def require_apart(settings: Settings, users: Sequence[User], changed: User) -> None:
    """Raise Conflict if jobs of this user could read what is other people's; see `accept`."""
    if changed.role is AccessRole.VIEWER or accepted(settings):
        return
    people = submitters(users)
    others = [user for user in people if user.name != changed.name]
    new = len(others) == len(people)
    if why := _same_account(settings, others, changed) if settings.as_submitters else "":
        raise Conflict(_refusal(changed.name, why))
    if isolation(settings) is Isolation.NONE and new and others:
        why = f"they run as the server's own Unix user (uid {os.geteuid()}), as those of {others[0].name} do"
        raise Conflict(_refusal(changed.name, f"{why}, and each {READS}"))


def require_apart_for_token(settings: Settings, users: Sequence[User], for_user: UserName) -> None:
    """Require isolation also for a token of a user from before this rule."""
    why = exposure_of(settings, users, for_user)
    if why and not accepted(settings) and any(user.name == for_user for user in submitters(users)):
        raise Conflict(f"there is no token for {for_user} now: {why} {_acceptance(for_user)}")


def _shared_accounts(settings: Settings, people: Sequence[User]) -> str:
    """A warning of users whose jobs share an account, or run as root, although each user has an account."""
    found = [
        f"jobs of {user.name} are not isolated: {why}"
        for number, user in enumerate(people)
        if (why := _same_account(settings, people[:number], user))
    ]
    return f"{'; '.join(found)}. {REMEDY}." if found else ""


def _same_account(settings: Settings, others: Sequence[User], changed: User) -> str:
    """Reason that its jobs share an account where each user has one; empty if they do not."""
    uid = _uid(changed.unix_user)
    if uid == 0 and changed.role is AccessRole.MEMBER:
        return f"its Unix user {changed.unix_user} is root, which reads the server's state and every job"
    same = [user.name for user in others if uid is not None and _uid(user.unix_user) == uid]
    return f"{same[0]} has the same Unix user {changed.unix_user}" if same and not settings.boxed else ""


def _refusal(name: UserName, why: str) -> str:
    return f"jobs of {name} would not be isolated: {why}. {REMEDY}. {_acceptance(name)}"


def _acceptance(name: UserName) -> str:
    return (
        f"Among people who trust each other, accept it: `grus user set {name} --accept-shared-account`, or "
        "shared_account = true under [server]"
    )


def _uid(unix_user: str) -> int | None:
    try:
        return pwd.getpwnam(unix_user).pw_uid if unix_user else None
    except KeyError:
        return None
