BEGIN TRANSACTION;
CREATE TABLE audit (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        actor TEXT NOT NULL,
        target TEXT NOT NULL,
        body TEXT NOT NULL
    ) STRICT;
INSERT INTO "audit" VALUES(1,'ada','node-1','{"at":10.0,"actor":"ada","action":"node.drain","target":"node-1","text":"new disks","seq":0}');
CREATE TABLE control (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        epoch INTEGER NOT NULL,
        pruning REAL
    ) STRICT;
INSERT INTO "control" VALUES(1,2,NULL);
CREATE TABLE cordoned (node TEXT PRIMARY KEY NOT NULL) STRICT;
INSERT INTO "cordoned" VALUES('node-1');
CREATE TABLE drains (
        node TEXT PRIMARY KEY NOT NULL REFERENCES cordoned (node) ON DELETE CASCADE,
        body TEXT NOT NULL
    ) STRICT;
INSERT INTO "drains" VALUES('node-1','{"message":"new disks","by":"ada","at":10.0}');
CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        at REAL NOT NULL,
        job TEXT,
        body TEXT NOT NULL
    ) STRICT;
INSERT INTO "events" VALUES(1,1001.0,'j0000000001','{"at":1001.0,"kind":"submitted","text":"it is submitted","job":"j0000000001","attempt":0,"seq":1,"generation":0,"held":null,"working":null,"lost":null}');
INSERT INTO "events" VALUES(2,1002.0,'j0000000002','{"at":1002.0,"kind":"submitted","text":"it is submitted","job":"j0000000002","attempt":0,"seq":2,"generation":0,"held":null,"working":null,"lost":null}');
INSERT INTO "events" VALUES(3,1003.0,'j0000000002','{"at":1003.0,"kind":"starting","text":"it is starting","job":"j0000000002","attempt":1,"seq":3,"generation":1,"held":2000000,"working":0,"lost":0}');
INSERT INTO "events" VALUES(4,1004.0,'j0000000002','{"at":1004.0,"kind":"running","text":"it is running","job":"j0000000002","attempt":1,"seq":4,"generation":1,"held":2000000,"working":2000000,"lost":0}');
INSERT INTO "events" VALUES(5,1005.0,'j0000000003','{"at":1005.0,"kind":"submitted","text":"it is submitted","job":"j0000000003","attempt":0,"seq":5,"generation":0,"held":null,"working":null,"lost":null}');
INSERT INTO "events" VALUES(6,1006.0,'j0000000003','{"at":1006.0,"kind":"starting","text":"it is starting","job":"j0000000003","attempt":1,"seq":6,"generation":1,"held":1000000,"working":0,"lost":0}');
INSERT INTO "events" VALUES(7,1007.0,'j0000000003','{"at":1007.0,"kind":"running","text":"it is running","job":"j0000000003","attempt":1,"seq":7,"generation":1,"held":1000000,"working":1000000,"lost":0}');
INSERT INTO "events" VALUES(8,1008.0,'j0000000003','{"at":1008.0,"kind":"succeeded","text":"it is succeeded","job":"j0000000003","attempt":1,"seq":8,"generation":1,"held":0,"working":0,"lost":0}');
INSERT INTO "events" VALUES(9,1009.0,'j0000000004','{"at":1009.0,"kind":"submitted","text":"it is submitted","job":"j0000000004","attempt":0,"seq":9,"generation":0,"held":null,"working":null,"lost":null}');
INSERT INTO "events" VALUES(10,1010.0,'j0000000004','{"at":1010.0,"kind":"paused","text":"it is paused","job":"j0000000004","attempt":0,"seq":10,"generation":0,"held":0,"working":0,"lost":0}');
INSERT INTO "events" VALUES(11,1011.0,'j0000000005','{"at":1011.0,"kind":"submitted","text":"it is submitted","job":"j0000000005","attempt":0,"seq":11,"generation":0,"held":null,"working":null,"lost":null}');
INSERT INTO "events" VALUES(12,1012.0,'j0000000005','{"at":1012.0,"kind":"starting","text":"it is starting","job":"j0000000005","attempt":1,"seq":12,"generation":1,"held":1000000,"working":0,"lost":0}');
INSERT INTO "events" VALUES(13,1013.0,'j0000000005','{"at":1013.0,"kind":"failed","text":"it is failed","job":"j0000000005","attempt":1,"seq":13,"generation":1,"held":0,"working":0,"lost":0}');
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
INSERT INTO "jobs" VALUES('j0000000001',1,'pending','vision','ada',1001.0,NULL,'{"id":"j0000000001","spec":{"name":"waiting","queue":"vision","run":["/bin/sh","-c","python train.py"],"request":{"roles":[{"name":"worker","replicas":{"low":1,"high":1},"replica":{"gpus":1,"share":0,"gpu_memory":0,"types":[],"cpu":0,"memory":0},"run":[],"image":"","pod":""}],"sizes":[],"one_node":false,"shares":false,"auto":false,"ways":[],"how":[]},"type":"train","launch":"once","resize":"auto","setup":[],"priority":50,"checkpoint":{"path":"","grace":30.0,"every":null},"idle":null,"max_runtime":null,"retries":1,"after":[],"env":[["LR","0.1"]],"workdir":"","snapshot":false,"data":[],"node_selector":[],"affinity":{"prefer":[],"avoid_nodes":[]},"image":"","pod":"","params":[],"inputs":[],"outputs":[],"after_failure":false,"sweep":null,"trial":null,"graph":null,"fresh":false},"user":"ada","submitted_at":1001.0,"version":1,"phase":"pending","desired":"run","attempt":0,"generation":0,"team":0,"team_at":null,"broken":0,"lost":0,"boot":null,"seats":[],"started_at":null,"first_started_at":null,"ended_at":null,"saved_at":null,"paused_by":null,"guest_of":null,"made_room_for":null,"backfill_until":null,"not_before":0.0,"failures":0,"size":null,"sizing":null,"exit":null,"reason":"","progress":[],"diverged":[],"verdict":"","grown":false,"key":"","artefacts":[],"files":"","saves_as":"","near":[],"same_as":null}');
INSERT INTO "jobs" VALUES('j0000000002',3,'running','vision','ada',1002.0,NULL,'{"id":"j0000000002","spec":{"name":"running","queue":"vision","run":["/bin/sh","-c","python train.py"],"request":{"roles":[{"name":"worker","replicas":{"low":1,"high":4},"replica":{"gpus":1,"share":0,"gpu_memory":0,"types":[],"cpu":0,"memory":0},"run":[],"image":"","pod":""}],"sizes":[],"one_node":false,"shares":false,"auto":false,"ways":[],"how":[]},"type":"train","launch":"once","resize":"auto","setup":[],"priority":50,"checkpoint":{"path":"","grace":30.0,"every":null},"idle":null,"max_runtime":null,"retries":1,"after":[],"env":[["LR","0.1"]],"workdir":"","snapshot":false,"data":[],"node_selector":[],"affinity":{"prefer":[],"avoid_nodes":[]},"image":"","pod":"","params":[],"inputs":[],"outputs":[],"after_failure":false,"sweep":null,"trial":null,"graph":null,"fresh":false},"user":"ada","submitted_at":1002.0,"version":3,"phase":"running","desired":"run","attempt":1,"generation":1,"team":0,"team_at":null,"broken":0,"lost":0,"boot":null,"seats":[{"role":"worker","index":0,"node":"node-0","devices":["node-0/gpu-0"],"share":1000000,"born":1,"leaving":false,"address":"","ready_at":null,"joined":0,"tries":0,"lost":0,"cut":false},{"role":"worker","index":1,"node":"node-0","devices":["node-0/gpu-1"],"share":1000000,"born":1,"leaving":false,"address":"","ready_at":null,"joined":0,"tries":0,"lost":0,"cut":false}],"started_at":1003.0,"first_started_at":1003.0,"ended_at":null,"saved_at":null,"paused_by":null,"guest_of":null,"made_room_for":null,"backfill_until":null,"not_before":0.0,"failures":0,"size":null,"sizing":null,"exit":null,"reason":"it is running","progress":[],"diverged":[],"verdict":"","grown":false,"key":"","artefacts":[],"files":"","saves_as":"","near":[],"same_as":null}');
INSERT INTO "jobs" VALUES('j0000000003',4,'succeeded','vision','ada',1005.0,1008.0,'{"id":"j0000000003","spec":{"name":"done","queue":"vision","run":["/bin/sh","-c","python train.py"],"request":{"roles":[{"name":"worker","replicas":{"low":1,"high":1},"replica":{"gpus":1,"share":0,"gpu_memory":0,"types":[],"cpu":0,"memory":0},"run":[],"image":"","pod":""}],"sizes":[],"one_node":false,"shares":false,"auto":false,"ways":[],"how":[]},"type":"train","launch":"once","resize":"auto","setup":[],"priority":50,"checkpoint":{"path":"","grace":30.0,"every":null},"idle":null,"max_runtime":null,"retries":1,"after":[],"env":[["LR","0.1"]],"workdir":"","snapshot":false,"data":[],"node_selector":[],"affinity":{"prefer":[],"avoid_nodes":[]},"image":"","pod":"","params":[],"inputs":[],"outputs":[],"after_failure":false,"sweep":null,"trial":null,"graph":null,"fresh":false},"user":"ada","submitted_at":1005.0,"version":4,"phase":"succeeded","desired":"run","attempt":1,"generation":1,"team":0,"team_at":null,"broken":0,"lost":0,"boot":null,"seats":[],"started_at":1006.0,"first_started_at":1006.0,"ended_at":1008.0,"saved_at":null,"paused_by":null,"guest_of":null,"made_room_for":null,"backfill_until":null,"not_before":0.0,"failures":0,"size":null,"sizing":null,"exit":{"cause":"done","code":0,"text":""},"reason":"it is succeeded","progress":[],"diverged":[],"verdict":"","grown":false,"key":"","artefacts":[],"files":"","saves_as":"","near":[],"same_as":null}');
INSERT INTO "jobs" VALUES('j0000000004',2,'paused','vision','ada',1009.0,NULL,'{"id":"j0000000004","spec":{"name":"paused","queue":"vision","run":["/bin/sh","-c","python train.py"],"request":{"roles":[{"name":"worker","replicas":{"low":1,"high":1},"replica":{"gpus":1,"share":0,"gpu_memory":0,"types":[],"cpu":0,"memory":0},"run":[],"image":"","pod":""}],"sizes":[],"one_node":false,"shares":false,"auto":false,"ways":[],"how":[]},"type":"train","launch":"once","resize":"auto","setup":[],"priority":50,"checkpoint":{"path":"","grace":30.0,"every":null},"idle":null,"max_runtime":null,"retries":1,"after":[],"env":[["LR","0.1"]],"workdir":"","snapshot":false,"data":[],"node_selector":[],"affinity":{"prefer":[],"avoid_nodes":[]},"image":"","pod":"","params":[],"inputs":[],"outputs":[],"after_failure":false,"sweep":null,"trial":null,"graph":null,"fresh":false},"user":"ada","submitted_at":1009.0,"version":2,"phase":"paused","desired":"pause","attempt":0,"generation":0,"team":0,"team_at":null,"broken":0,"lost":0,"boot":null,"seats":[],"started_at":null,"first_started_at":null,"ended_at":null,"saved_at":null,"paused_by":"person","guest_of":null,"made_room_for":null,"backfill_until":null,"not_before":0.0,"failures":0,"size":null,"sizing":null,"exit":null,"reason":"it is paused","progress":[],"diverged":[],"verdict":"","grown":false,"key":"","artefacts":[],"files":"","saves_as":"","near":[],"same_as":null}');
INSERT INTO "jobs" VALUES('j0000000005',3,'failed','vision','ada',1011.0,1013.0,'{"id":"j0000000005","spec":{"name":"failed","queue":"vision","run":["/bin/sh","-c","python train.py"],"request":{"roles":[{"name":"worker","replicas":{"low":1,"high":1},"replica":{"gpus":1,"share":0,"gpu_memory":0,"types":[],"cpu":0,"memory":0},"run":[],"image":"","pod":""}],"sizes":[],"one_node":false,"shares":false,"auto":false,"ways":[],"how":[]},"type":"train","launch":"once","resize":"auto","setup":[],"priority":50,"checkpoint":{"path":"","grace":30.0,"every":null},"idle":null,"max_runtime":null,"retries":1,"after":[],"env":[["LR","0.1"]],"workdir":"","snapshot":false,"data":[],"node_selector":[],"affinity":{"prefer":[],"avoid_nodes":[]},"image":"","pod":"","params":[],"inputs":[],"outputs":[],"after_failure":false,"sweep":null,"trial":null,"graph":null,"fresh":false},"user":"ada","submitted_at":1011.0,"version":3,"phase":"failed","desired":"run","attempt":1,"generation":1,"team":0,"team_at":null,"broken":0,"lost":0,"boot":null,"seats":[],"started_at":1012.0,"first_started_at":1012.0,"ended_at":1013.0,"saved_at":null,"paused_by":null,"guest_of":null,"made_room_for":null,"backfill_until":null,"not_before":0.0,"failures":1,"size":null,"sizing":null,"exit":{"cause":"exit code","code":3,"text":"exit code 3"},"reason":"it is failed","progress":[],"diverged":[],"verdict":"","grown":false,"key":"","artefacts":[],"files":"","saves_as":"","near":[],"same_as":null}');
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
CREATE TABLE profiles (
        fingerprint TEXT PRIMARY KEY NOT NULL,
        updated_at REAL NOT NULL,
        body TEXT NOT NULL
    ) STRICT;
INSERT INTO "profiles" VALUES('f1',4.0,'{"fingerprint":"f1","program":"p","name":"größe","user":"ada","command":"python train.py","image":"i","count":1,"runs":[{"job":"j1","at":1.0,"phase":"succeeded","seconds":0.3333333333333333,"uses":[{"type":"A100","gpus":1000000,"seconds":10.0,"busy":7.1,"levels":[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5],"memory":3221225472,"how":["split"],"slice":5}],"host_memory":1099511627776,"cpu":0.1,"energy":2.5,"kind":"training","period":0.30000000000000004,"data":"d1","new_data":true,"given":"","code":""}],"speeds":[{"type":"A100","nodes":1,"gpus":2,"local":16.0,"step":0.25}],"stall":0.5,"boot":3.5,"data":["d1"],"pairs":[{"other":"f2","gain":1.25,"times":1,"at":3.0}],"short":[{"gpus":1,"memory":4294967296,"how":[],"given":""},{"gpus":2,"memory":1,"how":["split"],"given":""}],"updated_at":4.0}');
CREATE TABLE queues (name TEXT PRIMARY KEY NOT NULL, body TEXT NOT NULL) STRICT;
INSERT INTO "queues" VALUES('vision','{"name":"vision","parent":null,"quota":{"by_type":[["any",4000000]]},"reserved":1000000,"weight":2.0,"limit":null,"nodes":[],"members":["ada"],"max_priority":125,"max_runtime":null,"dev_limit":null,"idle":null,"oversubscribe":false}');
CREATE TABLE reports (
        job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (job, number)
    ) STRICT, WITHOUT ROWID;
INSERT INTO "reports" VALUES('j0000000002',1,'{"job":"j0000000002","number":1,"attempt":1,"at":101.0,"figures":[["step",1.0]],"saved_at":null,"gpus":0}');
INSERT INTO "reports" VALUES('j0000000002',2,'{"job":"j0000000002","number":2,"attempt":1,"at":102.0,"figures":[["step",2.0]],"saved_at":null,"gpus":0}');
INSERT INTO "reports" VALUES('j0000000002',3,'{"job":"j0000000002","number":3,"attempt":1,"at":103.0,"figures":[["step",3.0]],"saved_at":null,"gpus":0}');
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
INSERT INTO "results" VALUES('j0000000003','ada','vision','done','succeeded','',1008.0,'{"job":"j0000000003","name":"done","user":"ada","queue":"vision","type":"train","phase":"succeeded","submitted_at":1005.0,"started_at":2.0,"ended_at":1008.0,"reason":"","attempts":0,"seconds":0.0,"gpu_seconds":0.0,"most_held":0,"command":[],"workdir":"","params":[],"env":[],"metrics":[],"code":"","data":"","image":"","inputs":[],"outputs":[],"trial":null,"key":"","same_as":null,"fingerprint":"","profile":null}');
CREATE TABLE tags (key TEXT PRIMARY KEY NOT NULL, body TEXT NOT NULL) STRICT;
INSERT INTO "tags" VALUES('job/j0000000002','{"kind":"training","at":1005.0,"expires":1.0,"confidence":0.0,"period":null,"boundary":null,"stage":"","hung_since":null,"utilisation":null,"peak_memory":null,"note":""}');
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
CREATE INDEX profiles_newest ON profiles (updated_at, fingerprint);
CREATE INDEX results_newest ON results (ended_at, job);
CREATE INDEX results_user ON results (user, ended_at, job);
CREATE INDEX results_queue ON results (queue, ended_at, job);
CREATE INDEX results_name ON results (name, ended_at, job);
CREATE INDEX results_key ON results (user, key, ended_at, job) WHERE key != '';
CREATE INDEX audit_actor ON audit (actor, seq);
CREATE INDEX audit_target ON audit (target, seq);
CREATE TRIGGER audit_stays_as_it_is BEFORE UPDATE ON audit
        BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit
        BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('events',13);
INSERT INTO "sqlite_sequence" VALUES('audit',1);
COMMIT;
PRAGMA user_version = 7;
