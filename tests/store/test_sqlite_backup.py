"""A copy becomes the file of a state by one rename: who dies leaves the old state whole, or the new one."""

import errno
import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from grus.model.audit import AuditRecord
from grus.model.errors import StoreFailed
from grus.model.identifiers import QueueName, UserName
from grus.model.interfaces import AUDIT, QUEUES, TOKENS, USERS, AccessRole, Token, User
from grus.model.queues import Queue
from grus.store import sqlite_backup
from grus.store.readers import read_only
from grus.store.sqlite import SqliteStore
from tests.store import released
from tests.store.builders import a_job, an_event


class Died(BaseException):
    """As kill -9 would: nothing after it is done."""


def jobs_in(file: Path) -> set[str]:
    store = SqliteStore(file)
    try:
        return {job.id for job in store.jobs()}
    finally:
        store.close()


def add(store: SqliteStore, name: str) -> None:
    job = a_job(name)
    store.create(job, an_event(job)).result()


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy that holds job `new`."""
    store = SqliteStore(tmp_path / "elsewhere" / "grus.db")
    add(store, "new")
    sqlite_backup.copy(store.path, tmp_path / "copied.db")
    store.close()
    return tmp_path / "copied.db"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A state that was left by kill -9: job `old` is in its log alone."""
    store = SqliteStore(tmp_path / "used" / "grus.db")
    add(store, "old")
    (tmp_path / "state").mkdir()
    for end in ("", "-wal"):
        shutil.copy(f"{store.path}{end}", tmp_path / "state")
    store.close()
    return tmp_path / "state" / "grus.db"


def bring(copied: Path, file: Path) -> Path:
    fresh = sqlite_backup.prepare(copied, file, epoch=7)
    aside = sqlite_backup.aside_of(file, "now")
    sqlite_backup.install(fresh.path, file, aside)
    return aside


def test_what_was_there_is_kept_whole_with_what_stood_in_its_log_alone(copied: Path, file: Path) -> None:
    aside = bring(copied, file)
    assert sorted(path.name for path in file.parent.iterdir()) == ["grus.db", "grus.db.before-now"]
    assert sqlite_backup.epoch_of(file) == 7
    assert (jobs_in(file), jobs_in(aside)) == ({"new"}, {"old"})


@pytest.mark.parametrize("call", ["os.link", "pathlib.Path.replace", "grus.store.sqlite_backup.sync_folder"])
def test_whoever_dies_before_the_rename_leaves_the_old_state_and_the_next_one_does_it(
    copied: Path, file: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def die(*given: object) -> None:
        if call == "os.link" and ".before-" not in str(given[1]):
            return link(*map(str, given))  # only tries whether it can be done
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(call, die)
        with pytest.raises(Died):
            bring(copied, file)
    assert jobs_in(file) == {"old"}
    assert jobs_in(bring(copied, file)) == {"old"}
    assert jobs_in(file) == {"new"}
    assert len(list(file.parent.glob("*.before-*"))) == 1


def test_a_journal_that_a_dead_one_left_is_not_played_into_the_next_copy(copied: Path, file: Path) -> None:
    for end in ("", "-journal", "-wal"):
        file.with_name(f"grus.db.new{end}").write_bytes(b"half")
    bring(copied, file)
    assert jobs_in(file) == {"new"}
    assert not list(file.parent.glob("grus.db.new*"))


def test_what_a_dead_one_left_is_no_back_up(copied: Path, file: Path) -> None:
    left = sqlite_backup.prepare(copied, file, epoch=7).path
    with pytest.raises(StoreFailed, match="name the backup"):
        sqlite_backup.prepare(left, file, epoch=8)
    assert left.exists()


@pytest.mark.parametrize("content", [b"", b"not a database" * 100])
def test_a_damaged_state_goes_aside_with_its_log_which_is_played_into_nothing(
    copied: Path, file: Path, content: bytes
) -> None:
    file.write_bytes(content)
    log = file.with_name("grus.db-wal")
    if content:
        log.write_bytes(b"")  # with its whole log it could be read
    aside = bring(copied, file)
    assert aside.read_bytes() == content
    assert aside.with_name(f"{aside.name}-wal").exists()
    assert jobs_in(file) == {"new"}


def test_a_restore_that_is_repeated_leaves_the_log_that_the_first_one_put_aside(
    copied: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite would throw it away if it were asked to open the empty file beside it."""
    file.write_bytes(b"")
    log = file.with_name("grus.db-wal").read_bytes()

    def die(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", die)
        with pytest.raises(Died):
            bring(copied, file)
    aside = bring(copied, file)
    assert aside.with_name(f"{aside.name}-wal").read_bytes() == log
    assert jobs_in(file) == {"new"}


def test_where_a_file_cannot_have_two_names_it_is_said_before_anything_is_done(
    copied: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StoreFailed, match="move it away yourself"):
        sqlite_backup.prepare(copied, file, epoch=7)
    assert jobs_in(file) == {"old"}
    assert not list(file.parent.glob("grus.db.*"))


def test_a_log_without_its_file_goes_aside(copied: Path, file: Path) -> None:
    file.unlink()
    aside = bring(copied, file)
    assert aside.with_name(f"{aside.name}-wal").stat().st_size > 0
    assert jobs_in(file) == {"new"}


def test_what_was_put_aside_within_the_same_second_keeps_its_name(copied: Path, file: Path) -> None:
    assert bring(copied, file) != bring(copied, file)


def test_a_file_that_somebody_reads_is_not_replaced(
    copied: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_backup, "BUSY", 0.05)
    with closing(read_only(file)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM control").fetchone()
        with pytest.raises(StoreFailed, match="another program"):
            bring(copied, file)
    assert not file.with_name("grus.db.new").exists()
    assert jobs_in(file) == {"old"}


def test_a_full_disk_is_named_and_leaves_everything_as_it_was(
    copied: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(sqlite_backup, "_sync", full)
    with pytest.raises(StoreFailed, match=f"room in {file.parent}"):
        bring(copied, file)
    assert not file.with_name("grus.db.new").exists()
    assert jobs_in(file) == {"old"}


def a_token(user: str, digest: str) -> Token:
    return Token(digest=digest, user=UserName(user), label=f"of {digest}", created_at=1.0)


def who_may(
    file: Path, users: dict[str, AccessRole], tokens: dict[str, str], members: tuple[str, ...]
) -> Path:
    store = SqliteStore(file)
    for name, role in users.items():
        store.put(USERS, User(name=UserName(name), role=role)).result()
    for digest, user in tokens.items():
        store.put(TOKENS, a_token(user, digest)).result()
    store.put(QUEUES, Queue(name=QueueName("q"), members=tuple(map(UserName, members)))).result()
    store.close()
    return file


def test_what_was_revoked_since_a_copy_was_made_stays_revoked(tmp_path: Path) -> None:
    admin, member = AccessRole.ADMIN, AccessRole.MEMBER
    then = who_may(
        tmp_path / "then" / "grus.db",
        {"ann": admin, "bob": admin, "eve": member},
        {"ann-1": "ann", "bob-1": "bob", "eve-1": "eve"},
        ("bob", "eve"),
    )
    file = who_may(
        tmp_path / "state" / "grus.db",
        {"ann": admin, "bob": member},
        {"ann-2": "ann", "bob-1": "bob"},
        ("bob",),
    )
    prepared = sqlite_backup.prepare(then, file, epoch=7)
    assert prepared.revoked == ("ann (of ann-1)", "eve (of eve-1)")
    assert prepared.returned == ("eve",)
    with closing(SqliteStore(prepared.path)) as store:
        assert {token.digest: token.user for token in store.find(TOKENS)} == {"ann-2": "ann", "bob-1": "bob"}
        assert {user.name: user.role for user in store.find(USERS)} == {
            "ann": admin,
            "bob": member,
            "eve": member,
        }
        assert [queue.members for queue in store.find(QUEUES)] == [("bob",)]


def test_where_there_is_nothing_to_ask_tokens_are_those_of_the_copy(copied: Path, file: Path) -> None:
    file.write_bytes(b"not a database" * 100)
    file.with_name("grus.db-wal").unlink()
    assert sqlite_backup.prepare(copied, file, epoch=7).revoked is None


def test_a_file_without_its_log_is_told_from_one_that_needs_none(copied: Path, file: Path) -> None:
    assert not sqlite_backup.lacks_log(copied)
    assert not sqlite_backup.lacks_log(file)
    assert not sqlite_backup.lacks_log(bring(copied, file))
    store = SqliteStore(file)
    store.close()
    assert sqlite_backup.lacks_log(file)  # nobody can tell that it had an end


def test_audit_records_that_are_newer_than_a_copy_are_kept(tmp_path: Path) -> None:
    file, copied = tmp_path / "state" / "grus.db", tmp_path / "copied.db"
    store = SqliteStore(file)
    for name in ("ann", "bob"):
        record = AuditRecord(at=1.0, actor=UserName("root"), action="user.set", target=name)
        store.put(USERS, User(name=UserName(name)), record=record).result()
        if name == "ann":
            sqlite_backup.copy(file, copied)
    store.close()
    sqlite_backup.install(sqlite_backup.prepare(copied, file, epoch=7).path, file, tmp_path / "aside")
    restored = SqliteStore(file)
    try:
        assert [(one.seq, one.target) for one in restored.find(AUDIT)] == [(2, "bob"), (1, "ann")]
    finally:
        restored.close()


def test_a_copy_and_a_state_from_before_the_audit_log_can_be_restored(tmp_path: Path) -> None:
    file, copied = tmp_path / "state" / "grus.db", tmp_path / "copied.db"
    for path in (file, copied):
        released.make(5, path)
    sqlite_backup.install(sqlite_backup.prepare(copied, file, epoch=7).path, file, tmp_path / "aside")
    restored = SqliteStore(file)
    try:
        assert restored.find(AUDIT) == []
        assert [token.user for token in restored.find(TOKENS)] == ["ada"]
    finally:
        restored.close()


def test_a_revoked_token_without_a_label_is_named_by_its_digest(tmp_path: Path) -> None:
    file = who_may(tmp_path / "then" / "grus.db", {"ann": AccessRole.ADMIN}, {}, ())
    with closing(SqliteStore(file)) as store:
        token = Token(digest="0123456789abcdef", user=UserName("ann"), label="", created_at=1.0)
        store.put(TOKENS, token).result()
    now = who_may(tmp_path / "state" / "grus.db", {"ann": AccessRole.ADMIN}, {}, ())
    assert sqlite_backup.prepare(file, now, epoch=7).revoked == ("ann (01234567)",)
