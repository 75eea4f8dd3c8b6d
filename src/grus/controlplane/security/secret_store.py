"""Secret store of one machine: files of mode 0600 in the server's state, one folder for each user.

Values go in by a command and out only into the environment of the owner's workers, when those start. Nothing
shows a value: not to its owner, not to an administrator. A backup does not hold them.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from grus.api.inputs.secrets import LARGEST_SECRET, ON_KUBERNETES
from grus.controlplane.security import isolation, rbac
from grus.controlplane.settings import Settings
from grus.model.errors import BadInput, Conflict, Mistake, NotFound
from grus.model.identifiers import NAME, NAME_RULE, UserName
from grus.model.interfaces import User
from grus.model.jobs import Spec
from grus.store.durable_files import make_folder, sync_folder, write_secret

MOST_OF_ONE_USER = 256


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """A secret as it is listed: without its value."""

    name: str
    set_at: float


class SecretStore:
    """For any thread. `users` gives all users now: several of them need isolation."""

    def __init__(self, settings: Settings, users: Callable[[], Sequence[User]]) -> None:
        self._settings = settings
        self._users = users

    def listed(self, user: User) -> list[StoredSecret]:
        """Return one's own secrets, by name."""
        return [StoredSecret(path.name, path.stat().st_mtime) for path in self._files(user.name)]

    def put(self, user: User, name: str, value: object) -> None:
        """Set a secret of one's own, or replace its value. Raises BadInput and Conflict."""
        rbac.require_member(user, "set secrets")
        if self._settings.containers:
            raise Conflict(f"secrets {ON_KUBERNETES}")
        if why := self._exposed(user):
            raise Conflict(f"a secret would not be kept from other people's jobs: {why}")
        if mistakes := [*_name_mistakes(name), *_value_mistakes(value)]:
            raise BadInput(mistakes)
        files = self._files(user.name)
        if len(files) >= MOST_OF_ONE_USER and all(path.name != name for path in files):
            raise Conflict(
                f"{user.name} has {MOST_OF_ONE_USER} secrets, the most there may be; delete one first"
            )
        for folder in (self._settings.secrets, self._folder(user.name)):
            make_folder(folder)
        write_secret(self._folder(user.name) / name, str(value).encode())

    def delete(self, user: User, name: str) -> None:
        """Delete a secret. Raises NotFound."""
        try:
            if not NAME.fullmatch(name):
                raise FileNotFoundError
            (self._folder(user.name) / name).unlink()
        except FileNotFoundError:
            raise NotFound(f"{user.name} has no secret {name[:80]!r}") from None
        sync_folder(self._folder(user.name))

    def delete_all(self, user: UserName) -> None:
        """Delete all secrets of a user who is removed."""
        for path in self._files(user):
            path.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            os.rmdir(self._folder(user))

    def values(self, user: UserName, named: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Return variables with their values, for a worker that starts. Raises NotFound."""
        found = {}
        for variable, name in named:
            try:
                found[variable] = (self._folder(user) / name).read_text()
            except FileNotFoundError:
                raise NotFound(_missing(user, name)) from None
        return found

    def mistakes(self, user: User, spec: Spec) -> list[Mistake]:
        """Why a job with these secrets cannot be taken; none if it can."""
        if not spec.secrets or self._settings.containers:
            return []
        if why := self._exposed(user):
            return [Mistake("secrets", f"would not be kept from other people's jobs: {why}")]
        known = {path.name for path in self._files(user.name)}
        return [
            Mistake(f"secrets.{variable}", _missing(user.name, name), name)
            for variable, name in spec.secrets
            if name not in known
        ]

    def _exposed(self, user: User) -> str:
        return isolation.exposure_of(self._settings, self._users(), user.name)

    def _folder(self, user: UserName) -> Path:
        """Return the user's folder; no user's string becomes a path."""
        return self._settings.secrets / hashlib.sha256(user.encode()).hexdigest()[:32]

    def _files(self, user: UserName) -> list[Path]:
        try:
            found = sorted(self._folder(user).iterdir())
        except FileNotFoundError:
            return []
        return [path for path in found if NAME.fullmatch(path.name)]


def _missing(user: UserName, name: str) -> str:
    return f"{user} has no secret {name!r}; set it with `grus secret set {name}`"


def _name_mistakes(name: str) -> list[Mistake]:
    return [] if NAME.fullmatch(name) else [Mistake("name", f"of a secret {NAME_RULE}", name[:80])]


def _value_mistakes(value: object) -> list[Mistake]:
    """Return errors of a value, without the value, which is in no message."""
    try:
        size = len(value.encode()) if isinstance(value, str) else -1
    except UnicodeEncodeError:
        size = -1
    if not 0 < size <= LARGEST_SECRET or "\0" in str(value):
        return [Mistake("value", f"must be text of 1 to {LARGEST_SECRET >> 10} KiB without NUL characters")]
    return []
