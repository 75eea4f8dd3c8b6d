"""Users and tokens: secrets are shown once, only digests are kept, and what is taken back no longer works."""

import pytest

from grus.controlplane.security.user_tokens import Accounts, digest_of
from grus.model.errors import BadInput, Conflict, NotAllowed, NotFound, NotLoggedIn
from grus.model.identifiers import UserName
from grus.model.interfaces import AUDIT, TOKENS, USERS, AccessRole, User
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
    made.put(USERS, ADMIN)
    made.put(USERS, ANN)
    return made


def test_a_secret_has_256_bits_and_is_nowhere_in_the_store(store: MemoryStore) -> None:
    accounts = Accounts(store, Clock())
    secret, token = accounts.new_token(ANN, ANN.name, "laptop")
    assert secret.startswith("grus_")
    assert len(secret) == len("grus_") + 43
    assert token.digest == digest_of(secret)
    assert secret not in repr(store.find(TOKENS))
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


@pytest.mark.parametrize(
    ("seconds", "text"), [(60, "1m"), (90 * 86400, "90d"), (100_000, "1d 3h"), (5400, "1h 30m")]
)
def test_the_audit_log_renders_the_life_of_a_token(store: MemoryStore, seconds: int, text: str) -> None:
    accounts = Accounts(store, Clock())
    accounts.new_token(ADMIN, ANN.name, "", expires_at=100.0 + seconds)
    assert [one.text for one in store.find(AUDIT)] == [f"for ann, expires after {text}"]


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


def test_an_expired_token_says_when_it_expired_and_what_to_do(store: MemoryStore) -> None:
    clock = Clock()
    accounts = Accounts(store, clock)
    secret, _ = accounts.new_token(ADMIN, ANN.name, "short", expires_at=110.0)
    clock.now = 111.0
    with pytest.raises(NotLoggedIn, match=r"of ann expired at 1970-01-01 00:01 UTC.*grus login"):
        accounts.whoami(secret)


def test_a_token_made_with_an_expiring_one_of_the_same_user_never_outlasts_it(store: MemoryStore) -> None:
    accounts = Accounts(store, Clock())
    _, mine = accounts.new_token(ADMIN, ANN.name, "short", expires_at=200.0)
    _, implied = accounts.new_token(ANN, ANN.name, "more", asked_with=mine.digest)
    _, shorter = accounts.new_token(ANN, ANN.name, "less", expires_at=150.0, asked_with=mine.digest)
    assert (implied.expires_at, shorter.expires_at) == (200.0, 150.0)
    with pytest.raises(BadInput, match="administrator can make a longer one"):
        accounts.new_token(ANN, ANN.name, "too long", expires_at=200.5, asked_with=mine.digest)
    _, lasting = accounts.new_token(ADMIN, ANN.name, "from above", asked_with=mine.digest)
    assert lasting.expires_at is None


def test_changes_of_users_and_tokens_are_audited_without_secrets(store: MemoryStore) -> None:
    accounts = Accounts(store, Clock())
    accounts.put_user(ADMIN, User(name=UserName("eve"), max_gpus=2_000_000))
    accounts.put_user(ADMIN, User(name=UserName("eve"), role=AccessRole.VIEWER))
    secret, token = accounts.new_token(ADMIN, UserName("eve"), "ci", expires_at=100.0 + 86400)
    accounts.delete_token(ADMIN, token.digest)
    accounts.delete_user(ADMIN, UserName("eve"))
    told = [(one.actor, one.action, one.target, one.text) for one in reversed(store.find(AUDIT))]
    short = token.digest[:12]
    assert told == [
        ("root", "user.set", "eve", "added: role none -> member; max_gpus none -> 2"),
        ("root", "user.set", "eve", "role member -> viewer; max_gpus 2 -> none"),
        ("root", "token.create", short, "for eve, label 'ci', expires after 1d"),
        ("root", "token.delete", short, "of eve, label 'ci'"),
        ("root", "user.delete", "eve", "user and all its tokens removed"),
    ]
    assert secret not in repr(store.find(AUDIT))
    assert token.digest not in repr(store.find(AUDIT))


def test_a_refused_change_is_not_audited(store: MemoryStore) -> None:
    accounts = Accounts(store, Clock())
    with pytest.raises(NotAllowed):
        accounts.put_user(ANN, User(name=ANN.name, role=AccessRole.ADMIN))
    with pytest.raises(Conflict):
        accounts.delete_user(ADMIN, ADMIN.name)
    assert store.find(AUDIT) == []
