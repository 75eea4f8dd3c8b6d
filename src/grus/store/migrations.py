"""Migrations: the schema of the SQLite file, as the steps that build it. `PRAGMA user_version` counts the
applied steps.

Never change a step that a release contains: add one. All missing steps run in one transaction, so that a file
is either as it was or wholly new. A file from a newer Grus is refused, never touched.
"""

import sqlite3
from collections.abc import Sequence

from grus.model.errors import StoreFailed

Step = Sequence[str]
"""Statements of a step, one by one: a script would commit on its own."""

FIRST: Step = (
    # The job is `body`; the other columns are what listings and checks need, taken from it at each write.
    """CREATE TABLE jobs (
        id TEXT PRIMARY KEY NOT NULL,
        version INTEGER NOT NULL,
        phase TEXT NOT NULL,
        queue TEXT NOT NULL,
        user TEXT NOT NULL,
        submitted_at REAL NOT NULL,
        ended_at REAL,
        body TEXT NOT NULL
    ) STRICT""",
    "CREATE INDEX jobs_newest ON jobs (submitted_at, id)",
    "CREATE INDEX jobs_phase ON jobs (phase, submitted_at, id)",
    "CREATE INDEX jobs_queue ON jobs (queue, submitted_at, id)",
    "CREATE INDEX jobs_user ON jobs (user, submitted_at, id)",
    "CREATE INDEX jobs_ended ON jobs (ended_at) WHERE ended_at IS NOT NULL",
    # AUTOINCREMENT: a number that was pruned is never given again.
    """CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        at REAL NOT NULL,
        job TEXT,
        body TEXT NOT NULL
    ) STRICT""",
    "CREATE INDEX events_job ON events (job, seq) WHERE job IS NOT NULL",
    "CREATE INDEX events_at ON events (at)",
    """CREATE TABLE keys (
        user TEXT NOT NULL,
        key TEXT NOT NULL,
        job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
        PRIMARY KEY (user, key)
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX keys_job ON keys (job)",
    "CREATE TABLE queues (name TEXT PRIMARY KEY NOT NULL, body TEXT NOT NULL) STRICT",
    "CREATE TABLE users (name TEXT PRIMARY KEY NOT NULL, body TEXT NOT NULL) STRICT",
    """CREATE TABLE tokens (
        digest TEXT PRIMARY KEY NOT NULL,
        user TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
        body TEXT NOT NULL
    ) STRICT""",
    "CREATE INDEX tokens_user ON tokens (user)",
    "CREATE TABLE cordoned (node TEXT PRIMARY KEY NOT NULL) STRICT",
    # One row. `pruning` is set only inside the transaction of a prune: events older than it may be deleted.
    """CREATE TABLE control (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        epoch INTEGER NOT NULL,
        pruning REAL
    ) STRICT""",
    "INSERT INTO control (one, epoch, pruning) VALUES (1, 0, NULL)",
    """CREATE TRIGGER events_stay_as_they_are BEFORE UPDATE ON events
        BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END""",
    """CREATE TRIGGER events_go_by_prune BEFORE DELETE ON events
        WHEN coalesce(OLD.at >= (SELECT pruning FROM control), 1)
        BEGIN SELECT RAISE(ABORT, 'the event log is append-only; only prune removes from it'); END""",
)

PREDICTIONS: Step = (
    """CREATE TABLE predictions (
        job TEXT PRIMARY KEY NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
        at REAL NOT NULL,
        body TEXT NOT NULL
    ) STRICT, WITHOUT ROWID""",
    "CREATE INDEX predictions_newest ON predictions (at, job)",
)

PROFILES: Step = (
    """CREATE TABLE profiles (
        fingerprint TEXT PRIMARY KEY NOT NULL,
        updated_at REAL NOT NULL,
        body TEXT NOT NULL
    ) STRICT""",
    "CREATE INDEX profiles_newest ON profiles (updated_at, fingerprint)",
    "CREATE TABLE tags (key TEXT PRIMARY KEY NOT NULL, body TEXT NOT NULL) STRICT",
)

REPORTS: Step = (
    """CREATE TABLE reports (
        job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (job, number)
    ) STRICT, WITHOUT ROWID""",
)

RESULTS: Step = (
    # No reference to the job: results outlast their jobs.
    """CREATE TABLE results (
        job TEXT PRIMARY KEY NOT NULL,
        user TEXT NOT NULL,
        queue TEXT NOT NULL,
        name TEXT NOT NULL,
        phase TEXT NOT NULL,
        key TEXT NOT NULL,
        ended_at REAL NOT NULL,
        body TEXT NOT NULL
    ) STRICT""",
    "CREATE INDEX results_newest ON results (ended_at, job)",
    "CREATE INDEX results_user ON results (user, ended_at, job)",
    "CREATE INDEX results_queue ON results (queue, ended_at, job)",
    "CREATE INDEX results_name ON results (name, ended_at, job)",
    "CREATE INDEX results_key ON results (user, key, ended_at, job) WHERE key != ''",
)

AUDIT: Step = (
    # AUTOINCREMENT: a number is never given twice. No reference to users: records outlast them.
    """CREATE TABLE audit (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        actor TEXT NOT NULL,
        target TEXT NOT NULL,
        body TEXT NOT NULL
    ) STRICT""",
    "CREATE INDEX audit_actor ON audit (actor, seq)",
    "CREATE INDEX audit_target ON audit (target, seq)",
    """CREATE TRIGGER audit_stays_as_it_is BEFORE UPDATE ON audit
        BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END""",
    """CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit
        BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END""",
)

DRAINS: Step = (
    """CREATE TABLE drains (
        node TEXT PRIMARY KEY NOT NULL REFERENCES cordoned (node) ON DELETE CASCADE,
        body TEXT NOT NULL
    ) STRICT""",
)

STEPS: Sequence[Step] = (FIRST, PREDICTIONS, PROFILES, REPORTS, RESULTS, AUDIT, DRAINS)


def migrate(connection: sqlite3.Connection, steps: Sequence[Step] = STEPS) -> None:
    """Bring the file to the latest schema. Raises StoreFailed for a file of a newer Grus, or of another
    program.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        done = version_of(connection, len(steps))
        for step in steps[done:]:
            for statement in step:
                connection.execute(statement)
        if done < len(steps):
            connection.execute(f"PRAGMA user_version = {len(steps)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def version_of(connection: sqlite3.Connection, known: int = len(STEPS)) -> int:
    """Return how many steps were applied to the file. Raises StoreFailed for a file of a newer Grus, or of
    another program.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > known:
        raise StoreFailed(
            f"the state file has version {version}, this Grus knows versions up to {known}: "
            "it was written by a newer Grus; upgrade, or use another state folder"
        )
    if version == 0 and connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
        raise StoreFailed("the state file is an SQLite file of another program; use another state folder")
    return version
