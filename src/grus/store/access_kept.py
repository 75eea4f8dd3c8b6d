"""Who may do what does not go back in time with a record: what was taken from somebody since stays taken.

Users, their tokens and the members of queues are those of the record that is replaced. Users that it has no
more keep their names in the other one, for their jobs' sake, and have no token.
"""

import sqlite3
from dataclasses import dataclass, replace

from grus.model.identifiers import QueueName
from grus.model.ports import Token, User
from grus.model.queues import Queue
from grus.store import codec, works


@dataclass(frozen=True, slots=True)
class Access:
    """What a record says about who may do what."""

    users: list[User]
    tokens: dict[str, Token]
    queues: dict[QueueName, Queue]


def read_access(record: sqlite3.Connection) -> Access:
    users = [codec.USER.decode(body) for (body,) in record.execute("SELECT body FROM users")]
    tokens = [codec.TOKEN.decode(body) for (body,) in record.execute("SELECT body FROM tokens")]
    queues = [codec.QUEUE.decode(body) for (body,) in record.execute("SELECT body FROM queues")]
    return Access(users, {one.digest: one for one in tokens}, {one.name: one for one in queues})


def keep_access(record: sqlite3.Connection, last: Access) -> tuple[str, ...]:
    """Change a record that goes back in time, in the caller's transaction; the tokens it loses."""
    then = read_access(record)
    gone = [token for token in then.tokens.values() if token.digest not in last.tokens]
    for user in last.users:
        works.put_user(user)(record)
    for token in gone:
        works.delete_token(token.digest)(record)
    for token in last.tokens.values():
        works.put_token(token)(record)
    for queue in then.queues.values():
        members = last.queues.get(queue.name, queue).members
        works.put_queue(replace(queue, members=members))(record)
    return tuple(sorted(f"{token.user} ({token.label})" for token in gone))
