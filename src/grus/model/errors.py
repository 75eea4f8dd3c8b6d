"""Exception hierarchy of Grus: every expected error.

    GrusError                      code, sentence; `exit_code` for the CLI, `status` for HTTP
    ├── BadInput         2  422    every error at once (`mistakes`)
    ├── DoesNotFit       3  409    no state of this pool can run it; names the nearest request that would
    ├── NotFound         4  404    no such job, queue, node, user
    ├── NotAllowed       5  403    this token may not do that
    │   └── NotLoggedIn  5  401    no token, or one that is unknown
    ├── Unreachable      6  503    the server does not answer
    ├── StoreFailed      1  503    the disk or the database failed; asking again is harmless
    └── Conflict         1  409    the object changed meanwhile, or is in a state that forbids this
        ├── StaleVersion           compare-and-swap lost: read again and retry
        └── Fenced                 a newer control plane has taken over: stop acting

A message states what failed, with the value, and what to do. A transient failure of the store or the engine
never decides about a job.
"""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Mistake:
    """One error in an input: its place, the value found there, and the rule it breaks."""

    field: str
    rule: str
    value: str = ""
    line: int | None = None

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else ""
        found = f" (found {self.value})" if self.value else ""
        return f"{where}{self.field}: {self.rule}{found}"


class GrusError(Exception):
    """Base of all errors that people are meant to read."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    status: ClassVar[int] = 500


class BadInput(GrusError):
    """The input breaks rules; all of them are listed and nothing was stored."""

    code = "bad_input"
    exit_code = 2
    status = 422

    def __init__(self, mistakes: list[Mistake]) -> None:
        self.mistakes = mistakes
        super().__init__("; ".join(str(mistake) for mistake in mistakes))


class DoesNotFit(GrusError):
    """The request can never fit this pool, however long it waits."""

    code = "does_not_fit"
    exit_code = 3
    status = 409


class NotFound(GrusError):
    """There is no such object."""

    code = "not_found"
    exit_code = 4
    status = 404


class NotAllowed(GrusError):
    """The caller may not do this."""

    code = "not_allowed"
    exit_code = 5
    status = 403


class NotLoggedIn(NotAllowed):
    """The caller gave no token, or an unknown one."""

    code = "not_logged_in"
    status = 401


class Unreachable(GrusError):
    """The server does not answer."""

    code = "unreachable"
    exit_code = 6
    status = 503


class StoreFailed(GrusError):
    """The store could not do its work. The request may not be durable; asking again is harmless.

    It never decides about a job: the job is as it was, or (if only the confirmation was lost) as it was
    requested to be.
    """

    code = "store_failed"
    status = 503


class Conflict(GrusError):
    """The present state forbids this."""

    code = "conflict"
    status = 409


class StaleVersion(Conflict):
    """Another writer changed the object since it was read."""

    code = "stale_version"


class Fenced(Conflict):
    """A newer control plane owns this state; a process that receives this error must stop acting."""

    code = "fenced"
