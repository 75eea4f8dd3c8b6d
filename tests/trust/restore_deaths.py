"""A restore that dies: killed, or cut off from power, before each operation that changes a file or a name.

A real `grus restore --force` runs once above a layer that writes down everything that reaches the disk
(`journal.c`); from that the disk is made as it is at each place of it (`disk`), with all that was done before
for a kill, and with any part of what was not synced for a loss of power. Then the state is wholly the old one
or wholly the back-up, `fsck` finds nothing, a server can take it over, and the same restore succeeds.

The old state has jobs that stand in its log alone, and an engine that has come further than its record.
"""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from grus.engines.local import fencing
from grus.model.errors import GrusError
from grus.model.identifiers import QueueName
from grus.model.interfaces import QUEUES
from grus.model.queues import Queue
from grus.sdk.state_paths import GrusPaths, places
from grus.server.backup.create import back_up
from grus.server.backup.restore import restore
from grus.server.runtime.state_check import require
from grus.store.sqlite import SqliteStore
from grus.store.verify_integrity import examine
from tests.store.builders import a_job, an_event
from tests.trust import disk, preloading
from tests.trust.used_state import examined

ROOT = Path(__file__).parents[2]
PATIENCE = 300.0
EARLIER, LATER = frozenset({"j1", "j2"}), frozenset({"j2", "j3", "j4"})
"""Jobs of the back-up, and of the state that it replaces."""
ENDED = '{"cause": "DONE", "code": 0, "text": "", "at": 1.0}'


def deaths(folder: Path, step: int = 1, seed: int = 1) -> Iterator[str]:
    """For each death: what was wrong after it, "" if nothing was. `step` 2 tries every second place."""
    chance = random.Random(f"restore {seed}")
    at, backed_up = before(folder)
    power_on = disk.Disk.of(at.config)
    operations = _journal(at.config, backed_up, folder / "journal")
    for number, operation in enumerate([*operations, disk.END]):
        if number % step == 0:
            for image in (power_on.now(), power_on.after_cut(chance)):
                place = folder / "died"
                disk.lay_out(image, place)
                found = wrong(place, backed_up, over=number == len(operations), serve=chance.random() < 0.5)
                yield f"before operation {number}: {found}" if found else ""
                shutil.rmtree(place)
        power_on.do(operation)


def before(folder: Path) -> tuple[GrusPaths, Path]:
    """A state that was left by kill -9, and an earlier back-up of another moment."""
    made = folder / "made"
    for name, jobs in (("earlier", EARLIER), ("later", LATER)):
        store = SqliteStore(made / name / "state" / "grus.db", lasting=False)
        store.put(QUEUES, Queue(name=QueueName("vision"))).result()
        store.take_over()
        for job in map(a_job, sorted(jobs)):
            store.create(job, an_event(job)).result()
        if name == "later":
            shutil.copytree(made / name, folder / "home", ignore=shutil.ignore_patterns("*-shm"))
        store.close()
    (made / "earlier" / "config.toml").write_text("[server]\nport = 0\n")
    back_up(places({"GRUS_HOME": str(made / "earlier")}), folder / "back-up", 1000.0)
    engine = folder / "home" / "state" / "engine"
    (engine / "epochs" / "31").mkdir(parents=True)
    (engine / "workers" / "j3.1.worker-0").mkdir(parents=True)
    (engine / "workers" / "j3.1.worker-0" / "exit.json").write_text(ENDED)
    return places({"GRUS_HOME": str(folder / "home")}), folder / "back-up"


def _journal(home: Path, backed_up: Path, journal: Path) -> list[disk.Operation]:
    """All that a restore does, as the command that people type."""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
        "GRUS_HOME": str(home),
        "LD_PRELOAD": str(preloading.library("journal")),
        "GRUS_TRUST_FOLDER": str(home),
        "GRUS_TRUST_JOURNAL": str(journal),
    }
    command = [sys.executable, "-m", "grus.cli.main", "restore", str(backed_up), "--force"]
    subprocess.run(command, env=env, check=True, timeout=PATIENCE, stdout=subprocess.DEVNULL)
    return list(disk.read(journal))


def wrong(home: Path, backed_up: Path, *, over: bool, serve: bool) -> str:
    """What is wrong with the state that a death has left; `serve` lets a server come before the next try."""
    at = places({"GRUS_HOME": str(home)})
    try:
        return _state_wrong(at, over, serve) or _next_try_wrong(at, backed_up)
    except GrusError as error:
        return str(error)


def _state_wrong(at: GrusPaths, over: bool, serve: bool) -> str:
    found = _jobs(at.state)
    if found not in ((EARLIER,) if over else (EARLIER, LATER)):
        return f"the state has jobs {sorted(found)}"
    if not (verdict := examined(at.state)).clean:
        return f"fsck finds {verdict.findings}"
    require(at.state)
    if serve:
        _take_over(at.state)
    return "" if _jobs(at.state) == found else "a server finds other jobs than fsck"


def _next_try_wrong(at: GrusPaths, backed_up: Path) -> str:
    done = restore(at, backed_up, 2000.0, force=True)
    if _jobs(at.state) != EARLIER or not examined(at.state).clean:
        return "the restore that was repeated did not bring the back-up"
    return "" if Path(done.aside).is_file() else "what was replaced is not kept"


def _jobs(state: Path) -> frozenset[str]:
    with examine(state / "grus.db") as examination:
        return frozenset(job.id for job in examination.jobs()) if examination.sound else frozenset()


def _take_over(state: Path) -> None:
    """As a server that starts; then it is killed."""
    with closing(SqliteStore(state / "grus.db", lasting=False)) as store:
        store.raise_epoch(fencing.highest(state / "engine"))
        fencing.take_over(state / "engine", store.take_over())
