"""Bugs of the door: who gets in, what they see of others, and who leads."""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from grus.controlplane.facade.job_outputs import JobOutputs
from grus.controlplane.security import user_tokens
from grus.controlplane.workers import logs
from grus.kubernetes.client import leader_election
from grus.kubernetes.client.api import Object
from grus.kubernetes.client.leader_election import LeaseObservation, epoch_of
from grus.model.errors import NotLoggedIn
from grus.model.identifiers import JobId, UserName
from grus.model.interfaces import AccessRole, User
from grus.server.http.auth_middleware import Caller, Gate
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
        self: JobOutputs,
        _user: User,
        id_: JobId,
        worker: int | None = None,
        offset: int = 0,
        limit: int = 65536,
    ) -> tuple[bytes, int]:
        return logs.read(self._engine, self._store.job(id_), worker or 0, offset, limit)

    return planted


def as_it_is(_: Any) -> Callable[[str], str]:
    return lambda secret: secret


def by_the_time_it_names(_: Any) -> Callable[[Object, LeaseObservation, float], LeaseObservation]:
    """A lease is as old as the clocks on two walls say."""

    def planted(lease: Object, _before: LeaseObservation, now: float) -> LeaseObservation:
        try:
            named = datetime.fromisoformat(lease["spec"]["renewTime"]).timestamp()
        except ValueError:
            named = 0.0
        return LeaseObservation(lease["spec"], epoch_of(lease), now - (time.time() - named))

    return planted


BUGS = (
    Bug(
        "open-route",
        "the routes of jobs answer without a token",
        "CVE-2023-48022",
        (Swap(Gate, "_caller", open_to_strangers),),
        ("tests/server/test_routes.py::test_without_a_token_nothing_answers_but_what_is_public",),
        everywhere=False,
    ),
    Bug(
        "log-of-others",
        "the log of a job is readable to people who may not see the job",
        "CVE-2024-26280",
        (Swap(JobOutputs, "log", log_of_anybody),),
        (
            "tests/controlplane/facade/test_services.py::test_members_of_the_queue_look_and_to_others_the_job_does_not_exist",
        ),
        everywhere=False,
    ),
    Bug(
        "token-in-clear",
        "tokens are stored as they are",
        issue("StackStorm/st2", 5349),
        (Swap(user_tokens, "digest_of", as_it_is),),
        (
            "tests/controlplane/security/test_user_tokens.py::test_a_secret_has_256_bits_and_is_nowhere_in_the_store",
        ),
        everywhere=False,
    ),
    Bug(
        "clock-jump",
        "whether the one who leads is alive is judged by clocks on walls, and a jump of one ends its turn",
        issue("hashicorp/nomad", 27675),
        (Swap(leader_election, "sighted", by_the_time_it_names),),
        ("tests/kubernetes/client/test_leader_election.py::TestRules",),
        everywhere=False,
    ),
)
