"""Users and tokens: secrets are shown once, only digests are kept, and what is taken back no longer works."""

import pytest

from grus.controlplane.accounts import Accounts, digest_of
from grus.model.errors import Conflict, NotAllowed, NotFound, NotLoggedIn
from grus.model.identifiers import UserName
from grus.model.ports import AccessRole, User
from grus.store.memory import MemoryStore

ADMIN = User(name=UserName("root"), role=AccessRole.ADMIN)
ANN = User(name=UserName("ann"))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore()
    made.put_user(ADMIN)
    made.put_user(ANN)
    return made


def test_a_secret_has_256_bits_and_is_nowhere_in_the_store(store: MemoryStore) -> None:
    accounts = Accounts(store, Clock())
    secret, token = accounts.new_token(ANN, ANN.name, "laptop")
    assert secret.startswith("grus_")
    assert len(secret) == len("grus_") + 43
    assert token.digest == digest_of(secret)
    assert secret not in repr(store.tokens())
    assert accounts.whoami(secret) == ANN


def test_unknown_and_expired_secrets_are_refused(store: MemoryStore) -> None:
    clock = Clock()
    accounts = Accounts(store, clock)
    secret, _ = accounts.new_token(ADMIN, ANN.name, "short", expires_at=110.0)
    accounts.whoami(secret)
    clock.now = 110.0
    with pytest.raises(NotLoggedIn, match="expired"):
        accounts.whoami(secret)
    for wrong in ("", "grus_", secret + "x", digest_of(secret)):
        with pytest.raises(NotLoggedIn):
            accounts.whoami(wrong)


def test_a_change_of_role_or_a_deleted_token_or_user_counts_at_once(store: MemoryStore) -> None:
    accounts = Accounts(store, Clock())
    secret, token = accounts.new_token(ANN, ANN.name, "a")
    other, _ = accounts.new_token(ANN, ANN.name, "b")
    accounts.put_user(ADMIN, User(name=ANN.name, role=AccessRole.VIEWER))
    assert accounts.whoami(secret).role is AccessRole.VIEWER
    accounts.delete_token(ANN, token.digest)
    with pytest.raises(NotLoggedIn):
        accounts.whoami(secret)
    accounts.whoami(other)
    accounts.delete_user(ADMIN, ANN.name)
    with pytest.raises(NotLoggedIn):
        accounts.whoami(other)


def test_tokens_of_others_can_be_neither_seen_nor_made_nor_deleted(store: MemoryStore) -> None:
    accounts = Accounts(store, Clock())
    _, token = accounts.new_token(ADMIN, ADMIN.name, "root's")
    assert accounts.tokens(ANN) == []
    with pytest.raises(NotFound):
        accounts.delete_token(ANN, token.digest)
    with pytest.raises(NotAllowed):
        accounts.new_token(ANN, ADMIN.name, "x")
    with pytest.raises(NotFound):
        accounts.new_token(ADMIN, UserName("nobody"), "x")


def test_the_last_administrator_stays(store: MemoryStore) -> None:
    accounts = Accounts(store, Clock())
    with pytest.raises(Conflict, match="only administrator"):
        accounts.delete_user(ADMIN, ADMIN.name)
    with pytest.raises(Conflict, match="only administrator"):
        accounts.put_user(ADMIN, User(name=ADMIN.name))
    accounts.put_user(ADMIN, User(name=ANN.name, role=AccessRole.ADMIN))
    accounts.delete_user(ADMIN, ADMIN.name)


def test_whoami_reads_nothing_from_the_store(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on the path of every request."""
    accounts = Accounts(store, Clock())
    secret, _ = accounts.new_token(ANN, ANN.name, "a")
    monkeypatch.setattr(accounts, "_store", None)
    assert accounts.whoami(secret).name == ANN.name
