PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE control (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        epoch INTEGER NOT NULL,
        pruning REAL
    ) STRICT;
INSERT INTO "control" VALUES(1,2,NULL);
CREATE TABLE cordoned (node TEXT PRIMARY KEY NOT NULL) STRICT;
INSERT INTO "cordoned" VALUES('node-1');
CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        at REAL NOT NULL,
        job TEXT,
        body TEXT NOT NULL
    ) STRICT;
INSERT INTO "events" VALUES(1,1001.0,'j0000000001','{"at":1001.0,"kind":"submitted","text":"it is submitted","job":"j0000000001","attempt":0,"seq":1}');
INSERT INTO "events" VALUES(2,1002.0,'j0000000002','{"at":1002.0,"kind":"submitted","text":"it is submitted","job":"j0000000002","attempt":0,"seq":2}');
INSERT INTO "events" VALUES(3,1003.0,'j0000000002','{"at":1003.0,"kind":"starting","text":"it is starting","job":"j0000000002","attempt":1,"seq":3}');
INSERT INTO "events" VALUES(4,1004.0,'j0000000002','{"at":1004.0,"kind":"running","text":"it is running","job":"j0000000002","attempt":1,"seq":4}');
INSERT INTO "events" VALUES(5,1005.0,'j0000000003','{"at":1005.0,"kind":"submitted","text":"it is submitted","job":"j0000000003","attempt":0,"seq":5}');
INSERT INTO "events" VALUES(6,1006.0,'j0000000003','{"at":1006.0,"kind":"starting","text":"it is starting","job":"j0000000003","attempt":1,"seq":6}');
INSERT INTO "events" VALUES(7,1007.0,'j0000000003','{"at":1007.0,"kind":"running","text":"it is running","job":"j0000000003","attempt":1,"seq":7}');
INSERT INTO "events" VALUES(8,1008.0,'j0000000003','{"at":1008.0,"kind":"succeeded","text":"it is succeeded","job":"j0000000003","attempt":1,"seq":8}');
INSERT INTO "events" VALUES(9,1009.0,'j0000000004','{"at":1009.0,"kind":"submitted","text":"it is submitted","job":"j0000000004","attempt":0,"seq":9}');
INSERT INTO "events" VALUES(10,1010.0,'j0000000004','{"at":1010.0,"kind":"paused","text":"it is paused","job":"j0000000004","attempt":0,"seq":10}');
INSERT INTO "events" VALUES(11,1011.0,'j0000000005','{"at":1011.0,"kind":"submitted","text":"it is submitted","job":"j0000000005","attempt":0,"seq":11}');
INSERT INTO "events" VALUES(12,1012.0,'j0000000005','{"at":1012.0,"kind":"starting","text":"it is starting","job":"j0000000005","attempt":1,"seq":12}');
INSERT INTO "events" VALUES(13,1013.0,'j0000000005','{"at":1013.0,"kind":"failed","text":"it is failed","job":"j0000000005","attempt":1,"seq":13}');
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
INSERT INTO "jobs" VALUES('j0000000001',1,'pending','vision','ada',1001.0,NULL,'{"id":"j0000000001","spec":{"name":"waiting","queue":"vision","run":["/bin/sh","-c","python train.py"],"request":{"roles":[{"name":"worker","replicas":{"low":1,"high":1},"replica":{"gpus":1,"share":0,"gpu_memory":0,"types":[],"cpu":0,"memory":0},"run":[]}],"sizes":[],"one_node":false},"type":"train","launch":"once","setup":[],"priority":50,"checkpoint":{"path":"","grace":30.0,"every":null},"idle":null,"max_runtime":null,"retries":1,"after":[],"env":[["LR","0.1"]],"workdir":"","snapshot":false,"node_selector":[],"affinity":{"prefer":[],"avoid_nodes":[]}},"user":"ada","submitted_at":1001.0,"version":1,"phase":"pending","desired":"run","attempt":0,"generation":0,"seats":[],"started_at":null,"first_started_at":null,"ended_at":null,"saved_at":null,"paused_by":null,"made_room_for":null,"backfill_until":null,"not_before":0.0,"failures":0,"size":null,"exit":null,"reason":"","progress":[]}');
INSERT INTO "jobs" VALUES('j0000000002',3,'running','vision','ada',1002.0,NULL,'{"id":"j0000000002","spec":{"name":"running","queue":"vision","run":["/bin/sh","-c","python train.py"],"request":{"roles":[{"name":"worker","replicas":{"low":1,"high":4},"replica":{"gpus":1,"share":0,"gpu_memory":0,"types":[],"cpu":0,"memory":0},"run":[]}],"sizes":[],"one_node":false},"type":"train","launch":"once","setup":[],"priority":50,"checkpoint":{"path":"","grace":30.0,"every":null},"idle":null,"max_runtime":null,"retries":1,"after":[],"env":[["LR","0.1"]],"workdir":"","snapshot":false,"node_selector":[],"affinity":{"prefer":[],"avoid_nodes":[]}},"user":"ada","submitted_at":1002.0,"version":3,"phase":"running","desired":"run","attempt":1,"generation":1,"seats":[{"role":"worker","index":0,"node":"node-0","devices":["node-0/gpu-0"],"share":1000000,"born":1,"leaving":false},{"role":"worker","index":1,"node":"node-0","devices":["node-0/gpu-1"],"share":1000000,"born":1,"leaving":false}],"started_at":1003.0,"first_started_at":1003.0,"ended_at":null,"saved_at":null,"paused_by":null,"made_room_for":null,"backfill_until":null,"not_before":0.0,"failures":0,"size":null,"exit":null,"reason":"it is running","progress":[]}');
INSERT INTO "jobs" VALUES('j0000000003',4,'succeeded','vision','ada',1005.0,1008.0,'{"id":"j0000000003","spec":{"name":"done","queue":"vision","run":["/bin/sh","-c","python train.py"],"request":{"roles":[{"name":"worker","replicas":{"low":1,"high":1},"replica":{"gpus":1,"share":0,"gpu_memory":0,"types":[],"cpu":0,"memory":0},"run":[]}],"sizes":[],"one_node":false},"type":"train","launch":"once","setup":[],"priority":50,"checkpoint":{"path":"","grace":30.0,"every":null},"idle":null,"max_runtime":null,"retries":1,"after":[],"env":[["LR","0.1"]],"workdir":"","snapshot":false,"node_selector":[],"affinity":{"prefer":[],"avoid_nodes":[]}},"user":"ada","submitted_at":1005.0,"version":4,"phase":"succeeded","desired":"run","attempt":1,"generation":1,"seats":[],"started_at":1006.0,"first_started_at":1006.0,"ended_at":1008.0,"saved_at":null,"paused_by":null,"made_room_for":null,"backfill_until":null,"not_before":0.0,"failures":0,"size":null,"exit":{"cause":"done","code":0,"text":""},"reason":"it is succeeded","progress":[]}');
INSERT INTO "jobs" VALUES('j0000000004',2,'paused','vision','ada',1009.0,NULL,'{"id":"j0000000004","spec":{"name":"paused","queue":"vision","run":["/bin/sh","-c","python train.py"],"request":{"roles":[{"name":"worker","replicas":{"low":1,"high":1},"replica":{"gpus":1,"share":0,"gpu_memory":0,"types":[],"cpu":0,"memory":0},"run":[]}],"sizes":[],"one_node":false},"type":"train","launch":"once","setup":[],"priority":50,"checkpoint":{"path":"","grace":30.0,"every":null},"idle":null,"max_runtime":null,"retries":1,"after":[],"env":[["LR","0.1"]],"workdir":"","snapshot":false,"node_selector":[],"affinity":{"prefer":[],"avoid_nodes":[]}},"user":"ada","submitted_at":1009.0,"version":2,"phase":"paused","desired":"pause","attempt":0,"generation":0,"seats":[],"started_at":null,"first_started_at":null,"ended_at":null,"saved_at":null,"paused_by":"person","made_room_for":null,"backfill_until":null,"not_before":0.0,"failures":0,"size":null,"exit":null,"reason":"it is paused","progress":[]}');
INSERT INTO "jobs" VALUES('j0000000005',3,'failed','vision','ada',1011.0,1013.0,'{"id":"j0000000005","spec":{"name":"failed","queue":"vision","run":["/bin/sh","-c","python train.py"],"request":{"roles":[{"name":"worker","replicas":{"low":1,"high":1},"replica":{"gpus":1,"share":0,"gpu_memory":0,"types":[],"cpu":0,"memory":0},"run":[]}],"sizes":[],"one_node":false},"type":"train","launch":"once","setup":[],"priority":50,"checkpoint":{"path":"","grace":30.0,"every":null},"idle":null,"max_runtime":null,"retries":1,"after":[],"env":[["LR","0.1"]],"workdir":"","snapshot":false,"node_selector":[],"affinity":{"prefer":[],"avoid_nodes":[]}},"user":"ada","submitted_at":1011.0,"version":3,"phase":"failed","desired":"run","attempt":1,"generation":1,"seats":[],"started_at":1012.0,"first_started_at":1012.0,"ended_at":1013.0,"saved_at":null,"paused_by":null,"made_room_for":null,"backfill_until":null,"not_before":0.0,"failures":1,"size":null,"exit":{"cause":"exit code","code":3,"text":"exit code 3"},"reason":"it is failed","progress":[]}');
CREATE TABLE keys (
        user TEXT NOT NULL,
        key TEXT NOT NULL,
        job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
        PRIMARY KEY (user, key)
    ) STRICT, WITHOUT ROWID;
INSERT INTO "keys" VALUES('ada','nightly','j0000000001');
CREATE TABLE predictions (
        job TEXT PRIMARY KEY NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
        at REAL NOT NULL,
        body TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
INSERT INTO "predictions" VALUES('j0000000001',1001.5,'{"job":"j0000000001","at":1001.5,"start":[2000.0,3000.0],"end":[4000.0]}');
CREATE TABLE queues (name TEXT PRIMARY KEY NOT NULL, body TEXT NOT NULL) STRICT;
INSERT INTO "queues" VALUES('vision','{"name":"vision","parent":null,"quota":{"by_type":[["any",4000000]]},"reserved":1000000,"weight":2.0,"limit":null,"nodes":[],"members":["ada"],"max_priority":125,"max_runtime":null,"oversubscribe":false}');
CREATE TABLE tokens (
        digest TEXT PRIMARY KEY NOT NULL,
        user TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
        body TEXT NOT NULL
    ) STRICT;
INSERT INTO "tokens" VALUES('9e95dcbd5ffbeacec5eee01105f9dd0911699e0c68b6a09ad8f5ffb3b6b16a5b','ada','{"digest":"9e95dcbd5ffbeacec5eee01105f9dd0911699e0c68b6a09ad8f5ffb3b6b16a5b","user":"ada","label":"first start","created_at":1000.0,"expires_at":null}');
CREATE TABLE users (name TEXT PRIMARY KEY NOT NULL, body TEXT NOT NULL) STRICT;
INSERT INTO "users" VALUES('ada','{"name":"ada","role":"admin","unix_user":""}');
INSERT INTO "users" VALUES('bob','{"name":"bob","role":"member","unix_user":""}');
CREATE INDEX jobs_newest ON jobs (submitted_at, id);
CREATE INDEX jobs_phase ON jobs (phase, submitted_at, id);
CREATE INDEX jobs_queue ON jobs (queue, submitted_at, id);
CREATE INDEX jobs_user ON jobs (user, submitted_at, id);
CREATE INDEX jobs_ended ON jobs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX events_job ON events (job, seq) WHERE job IS NOT NULL;
CREATE INDEX events_at ON events (at);
CREATE INDEX keys_job ON keys (job);
CREATE INDEX tokens_user ON tokens (user);
CREATE TRIGGER events_stay_as_they_are BEFORE UPDATE ON events
        BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;
CREATE TRIGGER events_go_by_prune BEFORE DELETE ON events
        WHEN coalesce(OLD.at >= (SELECT pruning FROM control), 1)
        BEGIN SELECT RAISE(ABORT, 'the event log is append-only; only prune removes from it'); END;
CREATE INDEX predictions_newest ON predictions (at, job);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('events',13);
COMMIT;
