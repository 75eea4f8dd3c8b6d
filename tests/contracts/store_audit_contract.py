"""Promises of every Store about audit records and drained nodes."""

from dataclasses import replace

import pytest

from grus.model.audit import AuditRecord
from grus.model.errors import BadInput, NotFound, StaleVersion
from grus.model.identifiers import NodeId, QueueName, UserName
from grus.model.interfaces import AUDIT, CORDONS, QUEUES, TOKENS, USERS, Store, Token, User
from grus.model.jobs import Desired
from grus.model.nodes import Cordon, Drain
from grus.model.queues import Queue
from tests.store.builders import ADA, BOB, a_job, cordoned, done, drains, stored


def a_record(action: str = "user.set", target: str = "bob", actor: UserName = ADA) -> AuditRecord:
    return AuditRecord(at=1.5, actor=actor, action=action, target=target, text="role member")


class AuditContract:
    def test_a_record_is_written_with_its_change_and_numbered(self, store: Store) -> None:
        done(store.put(USERS, User(name=ADA), record=a_record(target="ada")))
        done(store.put(USERS, User(name=BOB), record=a_record()))
        assert store.find(AUDIT) == [replace(a_record(), seq=2), replace(a_record(target="ada"), seq=1)]

    def test_a_change_without_a_record_leaves_the_audit_log_alone(self, store: Store) -> None:
        done(store.put(USERS, User(name=ADA)))
        assert store.find(AUDIT) == []

    def test_a_refused_change_leaves_no_record(self, store: Store) -> None:
        with pytest.raises(NotFound):
            done(store.delete(USERS, BOB, record=a_record("user.delete")))
        with pytest.raises(NotFound):
            done(store.delete(TOKENS, "d", record=a_record("token.delete")))
        with pytest.raises(NotFound):
            done(store.delete(QUEUES, QueueName("q"), record=a_record("queue.delete")))
        [job] = stored(store, a_job("j1"))
        done(store.replace(job, None))
        with pytest.raises(StaleVersion):
            done(store.replace(replace(job, desired=Desired.STOP), None, record=a_record("job.stop")))
        assert store.find(AUDIT) == []

    def test_a_record_that_could_not_be_read_back_keeps_its_change_from_being_written(
        self, store: Store
    ) -> None:
        with pytest.raises(BadInput):
            done(store.put(USERS, User(name=BOB), record=a_record(target="\ud800")))
        assert store.find(USERS) == []

    def test_every_kind_of_change_takes_a_record(self, store: Store) -> None:
        done(store.put(USERS, User(name=ADA), record=a_record("user.set")))
        token = Token(digest="d", user=ADA, label="", created_at=1.0)
        done(store.put(TOKENS, token, record=a_record("token.create")))
        done(store.delete(TOKENS, "d", record=a_record("token.delete")))
        done(store.delete(USERS, ADA, record=a_record("user.delete")))
        done(store.put(QUEUES, Queue(name=QueueName("q")), record=a_record("queue.set")))
        done(store.delete(QUEUES, QueueName("q"), record=a_record("queue.delete")))
        [job] = stored(store, a_job("j1"))
        done(store.replace(replace(job, desired=Desired.STOP), None, record=a_record("job.stop")))
        actions = [record.action for record in reversed(store.find(AUDIT))]
        wanted = ["user.set", "token.create", "token.delete", "user.delete", "queue.set", "queue.delete"]
        assert actions == [*wanted, "job.stop"]

    def test_records_are_listed_newest_first_by_actor_and_target_in_pages(self, store: Store) -> None:
        for number in range(4):
            record = a_record(target=f"u{number}", actor=ADA if number % 2 else BOB)
            done(store.put(USERS, User(name=UserName(f"u{number}")), record=record))
        assert [one.seq for one in store.find(AUDIT, limit=3)] == [4, 3, 2]
        assert [one.seq for one in store.find(AUDIT, after=(2,))] == [1]
        assert [one.seq for one in store.find(AUDIT, actor=ADA)] == [4, 2]
        assert [one.seq for one in store.find(AUDIT, target="u2")] == [3]
        assert store.find(AUDIT, limit=0) == []

    def test_records_outlast_the_user_who_made_them(self, store: Store) -> None:
        done(store.put(USERS, User(name=ADA), record=a_record(target="ada")))
        done(store.delete(USERS, ADA))
        assert [one.actor for one in store.find(AUDIT)] == [ADA]


class DrainContract:
    def test_a_drained_node_is_cordoned_until_it_is_opened(self, store: Store) -> None:
        node, drain = NodeId("n1"), Drain(message="new disks until Friday", by=ADA, at=1.0)
        done(store.put(CORDONS, Cordon(node, drain), record=a_record("node.drain", "n1")))
        assert (cordoned(store), drains(store)) == (frozenset({node}), {node: drain})
        assert [one.action for one in store.find(AUDIT)] == ["node.drain"]
        done(store.delete(CORDONS, node))
        assert (cordoned(store), drains(store)) == (frozenset[NodeId](), dict[NodeId, Drain]())

    def test_a_cordon_takes_the_place_of_a_drain_and_the_other_way_round(self, store: Store) -> None:
        node = NodeId("n1")
        done(store.put(CORDONS, Cordon(node, Drain(message="a"))))
        done(store.put(CORDONS, Cordon(node, Drain(message="b"))))
        assert drains(store) == {node: Drain(message="b")}
        done(store.put(CORDONS, Cordon(node)))
        assert (cordoned(store), drains(store)) == (frozenset({node}), dict[NodeId, Drain]())
