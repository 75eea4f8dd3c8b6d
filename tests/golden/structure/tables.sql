CREATE INDEX audit_actor ON audit (actor, seq);
CREATE INDEX audit_target ON audit (target, seq);
CREATE INDEX events_at ON events (at);
CREATE INDEX events_job ON events (job, seq) WHERE job IS NOT NULL;
CREATE INDEX jobs_ended ON jobs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX jobs_newest ON jobs (submitted_at, id);
CREATE INDEX jobs_phase ON jobs (phase, submitted_at, id);
CREATE INDEX jobs_queue ON jobs (queue, submitted_at, id);
CREATE INDEX jobs_user ON jobs (user, submitted_at, id);
CREATE INDEX keys_job ON keys (job);
CREATE INDEX predictions_newest ON predictions (at, job);
CREATE INDEX profiles_newest ON profiles (updated_at, fingerprint);
CREATE INDEX results_key ON results (user, key, ended_at, job) WHERE key != '';
CREATE INDEX results_name ON results (name, ended_at, job);
CREATE INDEX results_newest ON results (ended_at, job);
CREATE INDEX results_queue ON results (queue, ended_at, job);
CREATE INDEX results_user ON results (user, ended_at, job);
CREATE INDEX tokens_user ON tokens (user);
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    actor TEXT NOT NULL,
    target TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE TABLE control (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    epoch INTEGER NOT NULL,
    pruning REAL
) STRICT;
CREATE TABLE cordoned (node TEXT PRIMARY KEY NOT NULL) STRICT;
CREATE TABLE drains (
    node TEXT PRIMARY KEY NOT NULL REFERENCES cordoned (node) ON DELETE CASCADE,
    body TEXT NOT NULL
) STRICT;
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    job TEXT,
    body TEXT NOT NULL
) STRICT;
CREATE TABLE jobs (
    id TEXT PRIMARY KEY NOT NULL,
    version INTEGER NOT NULL,
    phase TEXT NOT NULL,
    queue TEXT NOT NULL,
    user TEXT NOT NULL,
    submitted_at REAL NOT NULL,
    ended_at REAL,
    body TEXT NOT NULL
) STRICT;
CREATE TABLE keys (
    user TEXT NOT NULL,
    key TEXT NOT NULL,
    job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    PRIMARY KEY (user, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE predictions (
    job TEXT PRIMARY KEY NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    at REAL NOT NULL,
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE profiles (
    fingerprint TEXT PRIMARY KEY NOT NULL,
    updated_at REAL NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE TABLE queues (name TEXT PRIMARY KEY NOT NULL, body TEXT NOT NULL) STRICT;
CREATE TABLE reports (
    job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (job, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE results (
    job TEXT PRIMARY KEY NOT NULL,
    user TEXT NOT NULL,
    queue TEXT NOT NULL,
    name TEXT NOT NULL,
    phase TEXT NOT NULL,
    key TEXT NOT NULL,
    ended_at REAL NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE TABLE sqlite_sequence(name,seq);
CREATE TABLE tags (key TEXT PRIMARY KEY NOT NULL, body TEXT NOT NULL) STRICT;
CREATE TABLE tokens (
    digest TEXT PRIMARY KEY NOT NULL,
    user TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
    body TEXT NOT NULL
) STRICT;
CREATE TABLE users (name TEXT PRIMARY KEY NOT NULL, body TEXT NOT NULL) STRICT;
CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_stays_as_it_is BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER events_go_by_prune BEFORE DELETE ON events
WHEN coalesce(OLD.at >= (SELECT pruning FROM control), 1)
BEGIN SELECT RAISE(ABORT, 'the event log is append-only; only prune removes from it'); END;
CREATE TRIGGER events_stay_as_they_are BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;
PRAGMA user_version = 7;
