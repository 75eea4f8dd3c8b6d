"""Bugs of the door: who gets in, and what they see of others."""

from collections.abc import Callable
from typing import Any

from grus.controlplane import logs
from grus.controlplane.services import Services
from grus.model.errors import NotLoggedIn
from grus.model.identifiers import JobId, UserName
from grus.model.ports import AccessRole, User
from grus.server.gate import Caller, Gate
from tests.trust.bugs.planting import Bug, Swap, issue


def open_to_strangers(caller: Any) -> Callable[[Gate, Any, Any], Caller]:
    """Whoever reaches the routes of jobs without a token is the administrator."""
    root = User(name=UserName("admin"), role=AccessRole.ADMIN)

    def planted(self: Gate, scope: Any, headers: Any) -> Caller:
        try:
            return caller(self, scope, headers)  # type: ignore[no-any-return]  # the original
        except NotLoggedIn:
            if not scope["path"].startswith("/v1/jobs"):
                raise
            return Caller(user=root, token="", verify=lambda: root)

    return planted


def log_of_anybody(_: Any) -> Callable[..., tuple[bytes, int]]:
    """Whoever knows the id of a job reads its log."""

    def planted(
        self: Services, _user: User, id_: JobId, worker: int | None = None, offset: int = 0, limit: int = 65536
    ) -> tuple[bytes, int]:
        return logs.read(self._engine, self._store.job(id_), worker or 0, offset, limit)

    return planted


def as_it_is(_: Any) -> Callable[[str], str]:
    return lambda secret: secret


BUGS = (
    Bug(
        "open-route",
        "the routes of jobs answer without a token",
        "CVE-2023-48022",
        (Swap("grus.server.gate:Gate._caller", open_to_strangers),),
        ("tests/server/test_routes.py",),
        everywhere=False,
    ),
    Bug(
        "log-of-others",
        "the log of a job is readable to people who may not see the job",
        "CVE-2024-26280",
        (Swap("grus.controlplane.services:Services.log", log_of_anybody),),
        ("tests/controlplane/test_services.py",),
        everywhere=False,
    ),
    Bug(
        "token-in-clear",
        "tokens are stored as they are",
        issue("StackStorm/st2", 5349),
        (Swap("grus.controlplane.accounts:digest_of", as_it_is),),
        ("tests/controlplane/test_accounts.py",),
        everywhere=False,
    ),
)
